const NOTES_HZ = [880, 1320];
const NOTE_S = 0.16;
const VOLUME = 0.06;

/** Two soft notes. A browser that wants a click first stays silent. */
export function ring(): void {
  const audio = new AudioContext();
  NOTES_HZ.forEach((frequency, index) => {
    const start = audio.currentTime + index * NOTE_S;
    const note = new OscillatorNode(audio, { frequency });
    const volume = new GainNode(audio, { gain: VOLUME });
    volume.gain.setTargetAtTime(0, start + NOTE_S / 2, NOTE_S / 3);
    note.connect(volume).connect(audio.destination);
    note.start(start);
    note.stop(start + 4 * NOTE_S);
  });
  window.setTimeout(() => void audio.close(), 2000);
}
