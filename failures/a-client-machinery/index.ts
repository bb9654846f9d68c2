import type { Exhibit } from '../harness/exhibit.ts';
import { interceptorKeyResend } from './01-interceptor-key-resend/exhibit.ts';
import { keyPerRedirect } from './02-key-per-redirect/exhibit.ts';
import { retryHookNewKey } from './03-retry-hook-new-key/exhibit.ts';
import { keyIfAbsentPerSend } from './04-key-if-absent-per-send/exhibit.ts';
import { retryCounterKey } from './05-retry-counter-key/exhibit.ts';
import { sdkAutomaticKey } from './06-sdk-automatic-key/exhibit.ts';
import { keyPerReauthentication } from './36-key-per-reauthentication/exhibit.ts';
import { axiosRetryInterceptor } from './37-axios-retry-interceptor/exhibit.ts';
import { tracingIdKey } from './38-tracing-id-key/exhibit.ts';

/** Keys that are made inside the client's machinery: an interceptor, a hook, a retry. */
export const clientMachinery: readonly Exhibit[] = [
  interceptorKeyResend,
  keyPerRedirect,
  retryHookNewKey,
  keyIfAbsentPerSend,
  retryCounterKey,
  sdkAutomaticKey,
  keyPerReauthentication,
  axiosRetryInterceptor,
  tracingIdKey,
];
