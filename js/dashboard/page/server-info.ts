// The server's description of itself and its store, for all parts of the page.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';

import type { AboutAnswer } from '../answers.ts';

export const ServerInfo = createContext<AboutAnswer | undefined>(undefined);

/** Returns the description; `undefined` until the server has answered. */
export function useServerInfo(): AboutAnswer | undefined {
  return useContext(ServerInfo);
}
