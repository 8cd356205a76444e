import { useQuery } from '@tanstack/react-query';
import { type ComponentProps, useDeferredValue, useId } from 'react';
import { knownModels } from '../api/queries';
import { TextField } from '../ui/Field';

interface Props extends Omit<ComponentProps<typeof TextField>, 'onChange' | 'list'> {
  value: string;
  onModel: (model: string) => void;
}

/** Takes the name of any model, and proposes those that are known. */
export function ModelField({ value, onModel, ...rest }: Props) {
  const list = useId();
  const query = useDeferredValue(value.trim());
  const models = useQuery(knownModels(query));
  return (
    <div>
      <TextField
        {...rest}
        list={list}
        value={value}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onModel(event.target.value)}
      />
      <datalist id={list}>
        {models.data?.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </div>
  );
}
