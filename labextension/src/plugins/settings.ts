import type { ISettingRegistry } from '@jupyterlab/settingregistry';

export const SETTINGS_ID = 'kagura-kernel:plugin';

export interface ISettings {
  position: 'left' | 'right';
  notifications: boolean;
  desktopNotifications: boolean;
  sound: boolean;
  endSeconds: number;
  pollSeconds: number;
}

export const DEFAULTS: Readonly<ISettings> = {
  position: 'right',
  notifications: true,
  desktopNotifications: false,
  sound: false,
  endSeconds: 30,
  pollSeconds: 5
};

/**
 * Hands out the settings now and whenever they change; `before` is null the first time. Without a registry, or when it
 * has no schema of ours, the defaults stand.
 */
export async function followSettings(
  registry: ISettingRegistry | null,
  use: (settings: ISettings, before: ISettings | null) => void
): Promise<void> {
  if (!registry) {
    use(DEFAULTS, null);
    return;
  }
  try {
    const loaded = await registry.load(SETTINGS_ID);
    let before: ISettings | null = null;
    const read = () => {
      const settings = { ...DEFAULTS, ...(loaded.composite as Partial<ISettings>) };
      use(settings, before);
      before = settings;
    };
    loaded.changed.connect(read);
    read();
  } catch (error) {
    console.warn('The settings of kagura-kernel could not be read; the defaults stand.', error);
    use(DEFAULTS, null);
  }
}
