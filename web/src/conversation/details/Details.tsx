import { useTranslation } from 'react-i18next';
import type { Conversation } from '../../api/client';
import { Dialog } from '../../ui/Dialog';
import { Tabs } from '../../ui/Tabs';
import type { Usage } from '../fold';
import { Agents } from './Agents';
import { Costs } from './Costs';
import { Network } from './Network';
import { Ports } from './Ports';

export type Detail = 'cost' | 'network' | 'ports' | 'agents';

/** What is beside a conversation: its costs, its sandbox's network and ports, its sub-agents. */
export function Details({
  conversation,
  usage,
  shown,
  onShow,
}: {
  conversation: Conversation;
  usage: Usage | null;
  shown: Detail;
  onShow: (detail: Detail | null) => void;
}) {
  const { t } = useTranslation();
  const tabs = [
    { value: 'cost', label: t('details.cost.tab'), content: <Costs conversation={conversation} usage={usage} /> },
    { value: 'network', label: t('details.network.tab'), content: <Network conversation={conversation} /> },
    { value: 'ports', label: t('details.ports.tab'), content: <Ports conversation={conversation} /> },
    { value: 'agents', label: t('details.agents.tab'), content: <Agents conversation={conversation} /> },
  ];
  return (
    <Dialog open onOpenChange={() => onShow(null)} title={t('details.title')} wide>
      <Tabs
        value={shown}
        onChange={(value) => onShow(value as Detail)}
        label={t('details.title')}
        tabs={tabs.map((each) => ({
          ...each,
          content: <div className="min-h-[min(28rem,60dvh)] px-1 pt-4 pb-2">{each.content}</div>,
        }))}
      />
    </Dialog>
  );
}
