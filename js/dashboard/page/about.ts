// What the server said of itself, for all that is in the page.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

import type { AboutAnswer } from '../answers.ts';

export const About = createContext<AboutAnswer | undefined>(undefined);

/** `undefined` until it has answered. */
export function useAbout(): AboutAnswer | undefined {
  return useContext(About);
}
