// Light or dark: as the system has it, until somebody says otherwise.

const KEY = 'perdure-theme';

export type Theme = 'system' | 'light' | 'dark';

/** The next one of the switch. */
export const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    // A browser may keep nothing.
    return 'system';
  }
}

export function setTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then it holds as long as the page does.
  }
  applyTheme(theme);
}

const system = matchMedia('(prefers-color-scheme: dark)');

/** The style sheet knows light and dark. */
export function applyTheme(is: Theme = theme()): void {
  document.documentElement.dataset.theme = is === 'system' ? (system.matches ? 'dark' : 'light') : is;
  // What is painted on a canvas has to be painted again.
  dispatchEvent(new Event('themechange'));
}

system.addEventListener('change', () => applyTheme());
