import { describe, expect, it } from 'vitest';
import { moreChanges, moreOf } from './more';

describe('the settings that few need', () => {
  const before = moreOf(null);

  it('sends nothing where nothing was changed', () => {
    expect(moreChanges(before, moreOf(null))).toEqual({});
  });

  it('sends what was changed, and null for what was emptied', () => {
    expect(
      moreChanges({ ...before, base: 'old' }, { ...before, skills: ' a \n\nb', factor: '2', sound: true }),
    ).toEqual({
      disabled_skills: ['a', 'b'],
      sandbox_base_container_image: null,
      remote_runtime_resource_factor: 2,
      enable_sound_notifications: true,
    });
  });
});
