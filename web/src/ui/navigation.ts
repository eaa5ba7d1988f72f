/** After a write a form navigates only if the user has not navigated elsewhere meanwhile. */

import { useIsRouting, useLocation } from "@solidjs/router";

/** Call the result before a write; what it returns then tells after the write whether the user is still on the same page. */
export function createNavigationCheck(): () => () => boolean {
  const location = useLocation();
  const isRouting = useIsRouting();
  return () => {
    const { pathname, search } = location;
    // A page that is still loading counts as navigation.
    return () => location.pathname === pathname && location.search === search && !isRouting();
  };
}
