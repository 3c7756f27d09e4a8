// Budgets: what was spent of an epsilon and a delta, in memory or where it outlives the page or the program. An amount counts as the decimal that
// is printed of its float64, and sums are exact: ten charges of 0.1 are 1.
import { openStore } from '#platform';
import { BudgetError, PrivacyBudgetExhaustedError } from './errors.js';
import { choice, delta as checkedDelta, positive } from './numbers.js';

const DECIMALS = 324; // no float64 has a digit behind that place

/** The printed decimal in units of 10^-324. */
function units(value) {
  const [digits, exponent] = value.toExponential().split('e');
  return BigInt(digits.replace('.', '')) * 10n ** BigInt(DECIMALS + Number(exponent) - Math.max(0, digits.length - 2));
}

const numberOf = (amount) => Number(`${amount}e-${DECIMALS}`);

export const NOTHING = Object.freeze({ epsilon: 0n, delta: 0n });

/** The total after a charge of numbers; PrivacyBudgetExhaustedError where it would exceed a limit, of which null is none. */
export function totalAfter(total, { epsilon, delta, maxEpsilon, maxDelta }) {
  const after = { epsilon: total.epsilon + units(epsilon), delta: total.delta + units(delta) };
  const exceeds = (amount, limit) => limit !== null && amount > units(limit);
  if (exceeds(after.epsilon, maxEpsilon)) throw new PrivacyBudgetExhaustedError('epsilon', epsilon, maxEpsilon, numberOf(total.epsilon));
  if (exceeds(after.delta, maxDelta)) throw new PrivacyBudgetExhaustedError('delta', delta, maxDelta, numberOf(total.delta));
  return after;
}

class MemoryStore {
  #total = NOTHING;
  async read() {
    return this.#total;
  }
  async charge(amounts) {
    return (this.#total = totalAfter(this.#total, amounts));
  }
  async reset() {
    this.#total = NOTHING;
  }
  async close() {}
}

class PrivacyBudget {
  #store;
  #settings;
  #stored;
  #pending = NOTHING;
  #work = new Set();

  constructor(store, stored, settings) {
    [this.#store, this.#stored, this.#settings] = [store, stored, settings];
  }

  /**
   * Charge before anything is drawn. What is known to be too much is refused at once, by a throw; the promise is kept when the charge is where it
   * outlives a crash, and broken if another page or program had spent what was left.
   */
  consume(epsilon, delta = 0) {
    const { maxEpsilon, maxDelta, blocks } = this.#settings;
    const amounts = { epsilon: positive('epsilon', epsilon), delta: checkedDelta(delta, true), maxEpsilon: null, maxDelta: null };
    const limited = { ...amounts, maxEpsilon, maxDelta };
    try {
      totalAfter(this.#total, limited);
    } catch (error) {
      if (blocks || !(error instanceof PrivacyBudgetExhaustedError)) throw error;
      console.warn(`[hushvec] ${error.message}`);
    }
    this.#pending = totalAfter(this.#pending, amounts);
    return this.#run(async () => {
      try {
        this.#stored = await this.#store.charge(blocks ? limited : amounts);
      } catch (error) {
        this.#stored = await this.#store.read().catch(() => this.#stored);
        throw error instanceof BudgetError ? error : new BudgetError(`the budget must be kept before anything is released, but: ${error.message}`);
      } finally {
        this.#pending = { epsilon: this.#pending.epsilon - units(epsilon), delta: this.#pending.delta - units(delta) };
      }
    });
  }

  get #total() {
    return { epsilon: this.#stored.epsilon + this.#pending.epsilon, delta: this.#stored.delta + this.#pending.delta };
  }

  #run(work) {
    const done = work().finally(() => this.#work.delete(done));
    this.#work.add(done);
    return done;
  }

  consumed = () => numberOf(this.#total.epsilon);
  consumedDelta = () => numberOf(this.#total.delta);
  remaining = () => numberOf(units(this.#settings.maxEpsilon) - this.#total.epsilon);
  isExhausted = () => this.#total.epsilon >= units(this.#settings.maxEpsilon);

  /** Nothing is spent any more: for a new period of privacy. */
  reset() {
    return this.#run(async () => {
      await this.#store.reset();
      this.#stored = NOTHING;
    });
  }

  /** Wait for what is still being written, and close the store. What was spent stays. */
  async destroy() {
    await Promise.allSettled(this.#work);
    await this.#store.close();
  }
}

/** A budget. `persistKey`: a key of IndexedDB in a browser, the path of a file in Node; without it the budget lasts as long as the page. */
export async function createPrivacyBudget({ maxEpsilon, maxDelta = null, persistKey, collectionId, onExhausted = 'block' }) {
  const settings = { maxEpsilon: positive('maxEpsilon', maxEpsilon), maxDelta: maxDelta === null ? null : checkedDelta(maxDelta, true) };
  settings.blocks = choice('onExhausted', onExhausted, ['block', 'warn']) === 'block';
  const store = persistKey === undefined ? new MemoryStore() : await openStore(collectionId === undefined ? persistKey : `${persistKey}:${collectionId}`, totalAfter, NOTHING);
  return new PrivacyBudget(store, await store.read(), settings);
}
