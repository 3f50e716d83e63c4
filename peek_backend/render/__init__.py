"""Record to view to text: labels, tables, trees, Markdown, diagrams, the page.

Comes in: records. Goes out: ``str`` or ``bytes``; nothing here prints, opens or exits. A record becomes
one ``GraphView`` of plain rows, edges and groups, which each output lowers and escapes for itself.
"""
