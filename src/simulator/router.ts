import type { Route } from './call.ts';
import { intentRoutes } from './intents.ts';
import { resourceRoutes } from './resources.ts';

/** A route and the object named in the path ('' without one). */
export interface Match {
  readonly route: Route;
  readonly id: string;
}

const exact = new Map<string, Route>();
const withId: { method: string; before: string; after: string; route: Route }[] = [];
for (const route of [...intentRoutes, ...resourceRoutes]) {
  const [before, after] = route.path.split(':id');
  if (before === undefined || after === undefined)
    exact.set(`${route.method} ${route.path}`, route);
  else withId.push({ method: route.method, before, after, route });
}

/** The route of a request, or undefined for a URL the simulator does not offer. */
export function matchRoute(method: string, path: string): Match | undefined {
  const known = exact.get(`${method} ${path}`);
  if (known !== undefined) return { route: known, id: '' };
  for (const one of withId) {
    if (one.method !== method || !path.startsWith(one.before) || !path.endsWith(one.after))
      continue;
    const id = path.slice(one.before.length, path.length - one.after.length);
    if (/^[A-Za-z0-9_]{1,255}$/.test(id)) return { route: one.route, id };
  }
  return undefined;
}
