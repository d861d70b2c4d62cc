/** Transactional steps on any library that runs SQL in transactions. */

export {
  type DatasourceAdapter,
  type DatasourceOptions,
  defineDatasource,
  type TransactionOptions,
} from './adapter.ts';
export type { Datasource, DatasourceActivityOptions, TransactionalFunction } from './datasource.ts';
export type { Isolation } from './step.ts';
export type { Dialect } from './steps-table.ts';
