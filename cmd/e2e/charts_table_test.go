package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	tableBegin = "<!-- made by make charts: begin -->"
	tableEnd   = "<!-- made by make charts: end -->"
	tableHead  = "| chart | version | what to know |\n|---|---|---|\n"
)

// row is the line of a chart in the table. One that runs as with Helm, and without notes, has only its name and
// version.
func (c *foreignChart) row() string {
	know := slices.Clone(c.notes)
	switch {
	case c.refused != "":
		know = []string{"refused by Helm, too: " + c.refused}
	case len(c.problems) > 0:
		know = append(know, "differs: "+strings.Join(c.problems, "; "))
	}
	cells := []string{c.name, c.version, strings.Join(know, "; ")}
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// oneLine makes a text fit into a cell.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + " …"
	}
	return text
}

// writeTable logs the table, and writes it in $CHARTS_TABLE between the two marks.
func writeTable(t *testing.T, all []*foreignChart) {
	t.Helper()
	slices.SortFunc(all, func(a, b *foreignChart) int { return strings.Compare(a.name, b.name) })
	table := tableHead
	for _, c := range all {
		table += c.row()
	}
	t.Log("\n" + table)
	file := os.Getenv("CHARTS_TABLE")
	if file == "" {
		return
	}
	page, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok1 := strings.Cut(string(page), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", file, tableBegin, tableEnd)
	}
	text := before + tableBegin + "\n\n" + table + "\n" + tableEnd + after
	must(t, os.WriteFile(file, []byte(text), 0o644))
}
