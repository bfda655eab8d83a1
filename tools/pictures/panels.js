// SPDX-License-Identifier: Apache-2.0
//
// The panels of a page of Grafana: their titles, what they show instead of data, their links as a browser follows them, and
// where the last panel or closed row ends.
(() => {
  const header = 'data-testid Panel header ';
  // 9.3 marks the header within the section, 10 and later the section itself; "Panel" has no title.
  const sections = document.querySelectorAll(`section.panel-container, section[data-testid^="${header}"], section[data-testid="Panel"]`);
  // The corner is 9.3's, "Panel status" that of 9.4 to 10.1. An alert inside a panel is its type that is missing, or a crash.
  const failed = '.panel-info-corner--error, [aria-label="Panel status"], [data-testid="data-testid Panel status error"]';
  const content = '.panel-content, [data-testid="data-testid panel content"]';
  const panels = Array.from(sections, section => {
    const named = section.dataset.testid?.startsWith(header) ? section : section.querySelector(`header[data-testid^="${header}"]`);
    const alert = section.querySelector('[role="alert"]');
    let problem = '';
    if (alert) {
      problem = 'shows ' + JSON.stringify(alert.innerText.trim().slice(0, 300));
    } else if (section.querySelector(failed)) {
      problem = 'shows that a query failed';
    } else if (!section.querySelector(content)) {
      problem = 'shows nothing: its data source or type is missing';
    }
    // A table cuts what its columns are too narrow for, and ends it with an ellipsis.
    const cut = Array.from(section.querySelectorAll('[role="cell"], [role="columnheader"]'), cell => [cell, ...cell.querySelectorAll('*')]
      .find(e => e.scrollWidth > e.clientWidth && e.clientWidth > 0 && getComputedStyle(e).textOverflow === 'ellipsis'))
      .filter(Boolean).map(e => `${e.innerText.trim()} (${e.scrollWidth} pixels in ${e.clientWidth})`);
    const links = Array.from(section.querySelectorAll('a[href]'), a => ({ text: a.innerText.trim(), to: a.href }));
    return { cut, links, title: named?.dataset.testid.slice(header.length) ?? '', problem };
  });
  const rows = document.querySelectorAll('[data-testid="dashboard-row-container"]');
  const bottom = Math.max(0, ...[...sections, ...rows].map(e => Math.ceil(e.getBoundingClientRect().bottom)));
  return { panels, bottom };
})()
