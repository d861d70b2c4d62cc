// Work with other instances as futures: children, detached starts, and messages.

import {
  CancelledError,
  InstanceExistsError,
  InstanceNotFoundError,
  LimitError,
  type PerdureError,
  QueueNotFoundError,
  RuntimeStateError,
  SubOrchestrationError,
} from '../errors/errors.ts';
import { cancellationError, fromErrorPayload, terminationError } from '../values/payload.ts';
import type { Issued } from './command.ts';
import {
  CHILD_CANCELLED,
  CHILD_TERMINATED,
  type Delivery,
  INSTANCE_EXISTS,
  INSTANCE_NOT_FOUND,
  MAILBOX_FULL,
  QUEUE_NOT_FOUND,
  REFUSED,
  SUCCEEDED,
} from './delivery.ts';
import { FAILED, OK } from './future.ts';
import { OnDemandFuture, OperationFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';
import { withCallerStack } from './source.ts';

/** A child that was started. */
export class ChildFuture<T> extends OperationFuture<T> {
  readonly name: string;
  readonly id: string;
  /** The queue that the child is started in, if there is one. */
  readonly queue: string | undefined;
  /** True once the child has run and has failed by an error of its own. */
  hasFailed = false;

  constructor(scheduler: FiberScheduler, issued: Issued, name: string, id: string, queue?: string) {
    super(scheduler, issued);
    this.name = name;
    this.id = id;
    this.queue = queue;
  }

  override deliver(delivery: Delivery): void {
    if (delivery.kind !== SUCCEEDED) {
      this.settle(FAILED, this.failure(delivery));
      return;
    }
    this.settleStored(delivery.value, `output of child '${this.id}'`);
  }

  override get isStep(): boolean {
    return true;
  }

  override describe(): string {
    return `child '${this.id}' (${this.name})`;
  }

  private failure(delivery: Delivery): SubOrchestrationError {
    const { name: orchestrationName, id: instanceId } = this;
    const [what, cause] = this.outcome(delivery);
    const why = cause instanceof CancelledError ? cause.reason : cause.message;
    const error = new SubOrchestrationError(
      `child '${instanceId}' (${orchestrationName}) ${what}${why === undefined ? '' : `: ${why}`}`,
      {
        orchestrationName,
        instanceId,
        cause,
      },
    );
    return withCallerStack(error, delivery.kind === REFUSED ? undefined : cause, this.source);
  }

  private outcome(delivery: Delivery): [what: string, cause: Error] {
    const { kind, detail, value } = delivery;
    if (kind === REFUSED) return ['could not be started', refusalError(delivery, this.id, this.queue)];
    if (detail === CHILD_TERMINATED) return ['ended', terminationError(value, this.id)];
    if (detail === CHILD_CANCELLED) return ['was cancelled', cancellationError(value, this.id, this.scheduler.types)];
    this.hasFailed = true;
    return ['failed', fromErrorPayload(value, this.scheduler.types)];
  }
}

/**
 * A start or a message that goes out with the turn. Its result, given once it is durable, is known from the beginning.
 */
export class SentFuture<T> extends OnDemandFuture<T> {
  /** The instance that is started or that the message is sent to. */
  readonly receiver: string;
  /** The queue that the instance is started in, by this start or by the message, if there is one. */
  readonly queue: string | undefined;
  private readonly result: T;

  constructor(scheduler: FiberScheduler, issued: Issued, receiver: string, result: T, queue?: string) {
    super(scheduler, issued);
    this.receiver = receiver;
    this.result = result;
    this.queue = queue;
  }

  /** A start or a message goes out whether or not the code waits. */
  override get isReported(): boolean {
    return false;
  }

  override deliver(delivery: Delivery): void {
    if (delivery.kind === REFUSED)
      this.settle(FAILED, withCallerStack(refusalError(delivery, this.receiver, this.queue), undefined, this.source));
    else this.settle(OK, this.result);
  }

  override describe(): string {
    return `what was sent to instance '${this.receiver}'`;
  }
}

/** @param queue - that the instance is started in */
function refusalError({ detail, value }: Delivery, instanceId: string, queue: string | undefined): PerdureError {
  switch (detail) {
    case QUEUE_NOT_FOUND:
      return queueError(queue ?? '');
    case INSTANCE_EXISTS:
      return new InstanceExistsError(`an instance with the id '${instanceId}' exists already`, { instanceId });
    case INSTANCE_NOT_FOUND:
      // A message that starts its receiver finds none only if the start was refused.
      if (queue !== undefined) return queueError(queue);
      return new InstanceNotFoundError(`there is no instance with the id '${instanceId}'`, { instanceId });
    case MAILBOX_FULL: {
      const max = Number(value);
      const message = `${max} messages wait for instance '${instanceId}', and no more may (limits.mailboxMessages)`;
      return new LimitError(message, { limit: 'mailboxMessages', max });
    }
    default:
      return new RuntimeStateError(`instance '${instanceId}' has ended and takes no more messages`);
  }
}

function queueError(queue: string): QueueNotFoundError {
  return new QueueNotFoundError(`there is no queue '${queue}'; set its limits first, with client.queues.set`, {
    queue,
  });
}
