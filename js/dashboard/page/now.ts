// The current time, for texts that count seconds.

import { useEffect, useState } from 'preact/hooks';

/** Returns ms since 1970, updated every second while `isOn`. */
export function useNow(isOn = true): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = window.setInterval(() => setNow(Date.now()), 1_000);
    return () => window.clearInterval(timer);
  }, [isOn]);
  return now;
}
