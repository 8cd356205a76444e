import { createContext, useContext } from 'react';

/** Where the agent of the shown conversation works, '' if that is not known. */
export const WorkingDir = createContext('');

export function useWorkingDir(): string {
  return useContext(WorkingDir);
}
