export { auditPeriod, quickCount, type QuickCount } from './audit-period.ts';
export { formatAuditReport } from './format-report.ts';
export { simulatorLedgerWitness } from './ledger-witness.ts';
export { auditExitCode, type AuditReport } from './report.ts';
export { providerWitness, stripeListWitness } from './stripe-list-witness.ts';
export { temporalHistoryWitness } from './temporal-witness.ts';
export type { ProviderWitness, TemporalWitness } from './witnesses.ts';
