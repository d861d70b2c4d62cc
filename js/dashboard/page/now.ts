// The time, for what counts seconds.

import { useEffect, useState } from 'preact/hooks';

/** Ms since 1970, anew every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1_000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
