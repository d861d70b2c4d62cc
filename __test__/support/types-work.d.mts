import type { ActivityDefinition, OrchestrationDefinition } from 'perdure';

import type { Cart, Money } from './value-types.mjs';

export { types } from './value-types.mjs';

export const add: ActivityDefinition<Cart, Cart>;
export const checkout: OrchestrationDefinition<Cart, [Cart, Money]>;
