// Only type-checked, with the types of a browser and none of Node.
import {
  idempotentFetch,
  IdempotencyClientError,
  newUserAction,
  type UserAction,
} from 'chargeonce/idempotency-client';

const send = idempotentFetch(window.fetch, { maxAttempts: 3 });
const action: UserAction = newUserAction({ storage: sessionStorage, name: 'pay order 17' });
const form = new FormData(document.querySelector('form') ?? undefined);
try {
  const answer = await send('/orders', { method: 'POST', body: form, action });
  const replayed: boolean = answer.replayed;
  document.title = `${answer.status} ${replayed}`;
} catch (error) {
  if (error instanceof IdempotencyClientError && error.code === 'no-answer') document.title = '?';
  // @ts-expect-error -- there is no such code
  if (error instanceof IdempotencyClientError && error.code === 'other') document.title = '!';
}
