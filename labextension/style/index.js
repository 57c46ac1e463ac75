import './index.css';
import '../lib/cards.css';
