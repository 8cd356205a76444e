let context: AudioContext | null = null;

/** Plays two short tones. Browsers allow it once the user has done something in the page. */
export function chime(): void {
  try {
    context ??= new AudioContext();
    if (context.state === 'suspended') void context.resume();
    for (const [at, pitch] of [
      [0, 660],
      [0.16, 880],
    ] as const) {
      const from = context.currentTime + at;
      const tone = context.createOscillator();
      const volume = context.createGain();
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.08, from);
      volume.gain.exponentialRampToValueAtTime(0.0001, from + 0.3);
      tone.connect(volume).connect(context.destination);
      tone.start(from);
      tone.stop(from + 0.32);
    }
  } catch {
    // no sound on this machine
  }
}
