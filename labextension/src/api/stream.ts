/**
 * The server's event stream, with only what is ours in it.
 */
import { EVENT_SCHEMA, type IChange } from '../tokens.js';
import { change, fields } from './decode.js';

/** What is needed of `app.serviceManager.events.stream`. */
export interface IEventStream {
  connect(slot: (sender: unknown, event: unknown) => void): boolean;
  disconnect(slot: (sender: unknown, event: unknown) => void): boolean;
}

/**
 * Hears the changes of the journal until it is disposed of.
 *
 * Jupyter opens the connection, and opens it again when it broke. It does not tell of either, so nobody here can: see
 * `Feed`, which finds out.
 */
export function hearChanges(stream: IEventStream, heard: (change: IChange) => void): { dispose(): void } {
  const slot = (_: unknown, event: unknown) => {
    const from = fields(event);
    // Jupyter Server lays the fields of an event beside its schema id; what posts through the API nests them in `data`.
    const found = from.schema_id === EVENT_SCHEMA ? (change(from) ?? change(from.data)) : null;
    if (found) {
      heard(found);
    }
  };
  stream.connect(slot);
  return { dispose: () => void stream.disconnect(slot) };
}
