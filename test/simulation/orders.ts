// Operators, schedules and Stripe's events: what comes from outside, as src/client.ts and the Schedules send it.
import { customerWorkflowId, runWorkflowId } from '../../src/domain/ids.ts';
import { billingRun } from '../../src/workflows/billing-run.ts';
import { billingTick } from '../../src/workflows/billing-tick.ts';
import { customerCharge } from '../../src/workflows/customer-charge.ts';
import { slotRef } from '../support/names.ts';
import type { Order } from './plan.ts';
import { RUN, type World } from './world.ts';

/** Does what an order asks for; throws what its caller would be told. */
export async function carryOut(world: World, order: Order): Promise<void> {
  const tick = { namespace: RUN.namespace, period: RUN.period, zone: 'UTC', billingDay: 1 };
  switch (order.order) {
    case 'tick':
      await world.executor.start(billingTick, {
        workflowId: `billing-tick-${order.atMs}-${world.lot(`tick ${world.time.nextId()}`)}`,
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        args: [tick],
      });
      return;
    case 'manual':
      await world.executor.start(billingRun, {
        workflowId: runWorkflowId(RUN),
        workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY',
        args: [{ ...RUN, startedBy: 'operator' }],
      });
      return;
    case 'pauseAndResume':
      await tell(world, 'pauseRun');
      await world.time.sleep(order.forMs);
      await tell(world, 'resumeRun');
      return;
    case 'rerun':
    case 'rerunSignal':
      await rerun(world, order);
      return;
    case 'hint':
      await lookAt(world, order.customer);
      return;
    case 'cancelIntent':
      world.stripe.cancel(order.customer);
      return;
    case 'doubleAmount':
      await world.ask(
        'UPDATE customers SET amount_minor = amount_minor * 2 WHERE customer_id = $1',
        [order.customer],
      );
      return;
    case 'newCard':
      await world.ask('UPDATE customers SET payment_method_id = $2 WHERE customer_id = $1', [
        order.customer,
        order.paymentMethod,
      ]);
  }
}

/** As the client does: an update or signal that starts the run's workflow when it is not open. */
async function rerun(world: World, order: Extract<Order, { requestId: string }>): Promise<void> {
  const id = runWorkflowId(RUN);
  const message = {
    customerId: order.customer,
    requestId: order.requestId,
    operator: 'ops',
    reason: 'simulated',
  };
  if (!world.executor.isOpen(id)) {
    await world.executor.start(billingRun, {
      workflowId: id,
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      args: [{ ...RUN, startedBy: 'ops', onlyReruns: true }],
    });
  }
  if (order.order === 'rerun') await world.executor.update(id, 'rerunCustomerUpdate', [message]);
  else await world.executor.signal(id, 'rerunCustomer', [message]);
}

async function tell(world: World, name: 'pauseRun' | 'resumeRun'): Promise<void> {
  const words = { operator: 'ops', reason: 'simulated' };
  await world.executor.update(runWorkflowId(RUN), name, [words]);
}

/** Has a customer looked at, as an event does; throws when its workflow is open. */
export async function lookAt(world: World, customer: string): Promise<void> {
  const slot = slotRef(customer, RUN);
  await world.executor.start(customerCharge, {
    workflowId: customerWorkflowId(slot),
    workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    args: [slot, { readOnly: true }],
  });
}
