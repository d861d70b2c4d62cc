// A dialog with a form. A refusal of the server is shown in it, and the focus returns where it was.

import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

interface DialogProps {
  readonly title: string;
  /** Word on the button that submits the form. */
  readonly button: string;
  readonly isHarmful?: boolean;
  /** True if the form cannot be submitted now. */
  readonly isDisabled?: boolean;
  readonly children: ComponentChildren;
  /** Does what the dialog is for. The message of an error is shown. */
  onSubmit(): Promise<void>;
  onClose(): void;
}

export function Dialog({
  title,
  button,
  isHarmful = false,
  isDisabled = false,
  children,
  onSubmit,
  onClose,
}: DialogProps): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    // Return the focus to the element that had it before.
    return () => (before instanceof HTMLElement ? before.focus() : undefined);
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setProblem('');
    try {
      await onSubmit();
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="ask" onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="ask">{title}</h2>
        {children}
        {problem === '' ? null : (
          <p role="alert" class="problem">
            {problem}
          </p>
        )}
        <p class="tools">
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
          <button type="submit" class={isHarmful ? 'harm main' : 'main'} disabled={isBusy || isDisabled}>
            {button}
          </button>
        </p>
      </form>
    </dialog>
  );
}
