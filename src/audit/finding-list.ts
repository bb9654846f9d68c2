import type { Finding, FindingKind, Severity } from './report.ts';

/** Kept of each severity, so that thousands of open slots never push a double charge out of the report. */
const KEPT_PER_SEVERITY = 500;

const BY_WEIGHT: readonly Severity[] = ['disagreement', 'unfinished', 'open'];

/** Findings, counted without bound and kept with one. */
export class FindingList {
  readonly #kept: Record<Severity, Finding[]> = { disagreement: [], unfinished: [], open: [] };
  readonly #bySeverity: Record<Severity, number> = { disagreement: 0, unfinished: 0, open: 0 };
  readonly #byKind: Partial<Record<FindingKind, number>> = {};

  add(finding: Finding): void {
    this.#bySeverity[finding.severity] += 1;
    this.#byKind[finding.kind] = (this.#byKind[finding.kind] ?? 0) + 1;
    const kept = this.#kept[finding.severity];
    if (kept.length < KEPT_PER_SEVERITY) kept.push(finding);
  }

  /** Turns kept disagreements into "unfinished" where the customer turned out to be still moving. */
  soften(isMoving: (finding: Finding) => boolean): void {
    const disagreements = this.#kept.disagreement;
    this.#kept.disagreement = [];
    for (const finding of disagreements) {
      if (!isMoving(finding)) {
        this.#kept.disagreement.push(finding);
        continue;
      }
      this.#bySeverity.disagreement -= 1;
      this.#bySeverity.unfinished += 1;
      const message = `${finding.message} (still moving: audit again)`;
      this.#kept.unfinished.push({ ...finding, severity: 'unfinished', message });
    }
  }

  count(severity: Severity): number {
    return this.#bySeverity[severity];
  }

  get total(): number {
    return BY_WEIGHT.reduce((sum, severity) => sum + this.#bySeverity[severity], 0);
  }

  get byKind(): Readonly<Partial<Record<FindingKind, number>>> {
    return this.#byKind;
  }

  /** Disagreements first. */
  kept(): Finding[] {
    return BY_WEIGHT.flatMap((severity) => this.#kept[severity]);
  }
}
