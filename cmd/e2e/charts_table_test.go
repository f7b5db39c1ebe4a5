package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	chartsPage = "../../docs/charts.md"
	tableBegin = "<!-- made by make charts: begin -->"
	tableEnd   = "<!-- made by make charts: end -->"
	// What the table says of a chart.
	asWithHelm = "runs as with Helm"
	differs    = "differs"
	refusedToo = "refused by Helm, too"
	tableHead  = "| chart | version | result | what to know |\n|---|---|---|---|\n"
)

// row is the line of a chart in the table.
func (c *foreignChart) row() string {
	result := asWithHelm
	know := slices.Clone(c.notes)
	switch {
	case c.refused != "":
		result, know = refusedToo, []string{c.refused}
	case len(c.problems) > 0:
		result = differs
		know = append(know, c.problems...)
	}
	cells := []string{c.name, c.version, result, strings.Join(know, "; ")}
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
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(page), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", file, tableBegin, tableEnd)
	}
	text := before + tableBegin + "\n\n" + table + "\n" + tableEnd + after
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The table of the documentation has one line for each chart, in order, and says one of three things of each.
func TestTableOfCharts(t *testing.T) {
	page, err := os.ReadFile(chartsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok1 := strings.Cut(string(page), tableBegin)
	table, _, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", chartsPage, tableBegin, tableEnd)
	}
	rows, ok := strings.CutPrefix(strings.TrimLeft(table, "\n"), tableHead)
	if !ok {
		t.Fatalf("the table does not begin with %q:\n%s", tableHead, table)
	}
	last := ""
	for row := range strings.Lines(strings.TrimSpace(rows)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(cells) != strings.Count(strings.Split(tableHead, "\n")[1], "---") {
			t.Errorf("%d cells: %s", len(cells), row)
			continue
		}
		name, version, result := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		if name <= last || version == "" || !slices.Contains([]string{asWithHelm, differs, refusedToo}, result) {
			t.Errorf("a row in the wrong order, without a version, or with an unknown result: %s", row)
		}
		last = name
	}
}
