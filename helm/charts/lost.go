package charts

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// HasContent reports whether a file says anything. White space and NUL bytes do not: a disk that was full, or a
// machine that has crashed, leaves such files.
func HasContent(data []byte) bool { return len(bytes.Trim(data, " \t\r\n\v\f\x00")) > 0 }

// inChart splits the name of a file into the chart or subchart that has it, and its name there.
var inChart = regexp.MustCompile(`^((?:chart/)?(?:charts/[^/]+/)*)(.*)$`)

// Lost finds what had content and has none now: a file, or a directory of a chart that is still there. A directory
// ends with a slash; "" for nothing. Such a tree is no order to delete what came from the lost content: the disk may be
// full, or a copy in progress (P8). had and has are names of files in a module or in a chart, and whether they have
// content. A file that is gone is one that was removed. So is a directory, unless it is templates/, or templates still
// read it: reads reports that.
func Lost(had, has map[string]bool, reads func(dir string) bool) string {
	_, was := had[inner+"/Chart.yaml"]
	_, is := has[inner+"/Chart.yaml"]
	below := func(dir string) bool {
		for name, content := range has {
			if content && strings.HasPrefix(name, dir) {
				return true
			}
		}
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		content, there := has[name]
		if !had[name] || content {
			continue
		}
		if there {
			return name
		}
		parts := inChart.FindStringSubmatch(name)
		above, top := parts[1], parts[2]
		top, _, ok := strings.Cut(top, "/")
		dir := above + top + "/"
		stays := ok && was == is && below(above) // else the chart has moved
		if stays && !below(dir) && (top == "templates" || top != "charts" && reads(top+"/")) {
			return dir
		}
	}
	return ""
}

// Reads reports whether a template may read files of a directory, whose name ends with a slash.
func Reads(template []byte, dir string) bool {
	return bytes.Contains(template, []byte(".Files")) && bytes.Contains(template, []byte(dir))
}

// Content are the files of the chart and its subcharts, and whether they have content. Their names are those in
// manifests without the name of the chart.
func (c *Chart) Content() map[string]bool {
	content := map[string]bool{}
	visit(c.chart, "", func(name string, data []byte) { content[name] = HasContent(data) })
	return content
}
