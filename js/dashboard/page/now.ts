// The current time, for texts that count seconds.

import { useEffect, useState } from 'preact/hooks';

/** Returns ms since 1970, updated every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1_000);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}
