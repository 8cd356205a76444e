import i18next from 'i18next';
import { initReactI18next } from 'react-i18next';
import en from './en.json';

export const languages = { en: 'English', de: 'Deutsch', fr: 'Français' } as const;
export type Language = keyof typeof languages;

declare module 'i18next' {
  interface CustomTypeOptions {
    defaultNS: 'translation';
    resources: { translation: typeof en };
  }
}

const name = 'parley:language';

const others: Record<Exclude<Language, 'en'>, () => Promise<{ default: object }>> = {
  de: () => import('./de.json'),
  fr: () => import('./fr.json'),
};

function preferred(): Language {
  let chosen: string | null = null;
  try {
    chosen = localStorage.getItem(name);
  } catch {
    // storage is off
  }
  for (const each of [chosen, ...navigator.languages]) {
    const short = each?.slice(0, 2) ?? '';
    if (short in languages) return short as Language;
  }
  return 'en';
}

async function load(language: Language): Promise<void> {
  if (language !== 'en' && !i18next.hasResourceBundle(language, 'translation')) {
    const catalogue = await others[language]();
    i18next.addResourceBundle(language, 'translation', catalogue.default);
  }
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

export async function startLanguage(): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: 'en',
    fallbackLng: 'en',
    resources: { en: { translation: en } },
    interpolation: { escapeValue: false }, // React does that
  });
  await load(preferred());
}

export async function setLanguage(language: Language): Promise<void> {
  try {
    localStorage.setItem(name, language);
  } catch {
    // it lives as long as the page
  }
  await load(language);
}
