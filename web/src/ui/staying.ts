/** Whoever goes elsewhere while a write runs stays there: where it would lead is not where he wants to be any more. */

import { useIsRouting, useLocation } from "@solidjs/router";

/** Asked before the write, it answers a question for afterwards: whether one is where one was. */
export function createStaying(): () => () => boolean {
  const location = useLocation();
  const isRouting = useIsRouting();
  return () => {
    const { pathname } = location;
    // A page that is still on its way is chosen already.
    return () => location.pathname === pathname && !isRouting();
  };
}
