// The theme, light or dark: that of the system, until the user selects one.

const KEY = 'perdure-theme';

export type Theme = 'system' | 'light' | 'dark';

/** The theme that the switch selects next. */
export const NEXT_THEME: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    // The browser may forbid storage.
    return 'system';
  }
}

export function setTheme(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage, the theme lasts as long as the page.
  }
  applyTheme(theme);
}

const system = matchMedia('(prefers-color-scheme: dark)');

/** Applies a theme. The style sheet knows only light and dark. */
export function applyTheme(is: Theme = theme()): void {
  document.documentElement.dataset.theme = is === 'system' ? (system.matches ? 'dark' : 'light') : is;
}

system.addEventListener('change', () => applyTheme());
