package charts

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"

	"addon-operator/helm/manifest"
)

// maxChart bounds the files of a chart, unpacked, in bytes. Helm keeps all of them in memory. It is
// far above what charts have: the rendered objects must fit into a release record of 1 MiB.
const maxChart = 64 << 20

// subchartArchive is where Helm looks for packed subcharts.
var subchartArchive = regexp.MustCompile(`(?:^|/)charts/[^/_.][^/]*\.tgz$`)

// readFiles reads the files of a chart that .helmignore does not name, as Helm's loader does, but refuses a chart
// that is too large, or whose YAML would be with all aliases written out. A synthesised one lacks what templates
// never read.
func readFiles(m Module, synthesised bool) (files []*loader.BufferedFile, err error) {
	root := Root(m.Dir)
	rules, err := ignoreRules(root, m.Where())
	if err != nil {
		return nil, err
	}
	var w weight
	err = walk(root, "", func(name string, info fs.FileInfo) error {
		switch {
		case rules.Ignore(name, info) || synthesised && isForeign(name):
			return skip(info)
		case info.IsDir():
			return nil
		case !info.Mode().IsRegular():
			return irregular(name)
		case !synthesised && info.Size() > loader.MaxDecompressedFileSize:
			return fmt.Errorf("%s has more than %d MiB, Helm's limit for a file of a chart; list it in .helmignore if no template reads it", name, loader.MaxDecompressedFileSize>>20)
		case int64(w)+info.Size() > maxChart:
			return errTooLarge
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err == nil {
			err = w.add(name, data)
		}
		const mark = "\ufeff" // of editors
		files = append(files, &loader.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, []byte(mark))})
		return err
	})
	return files, err
}

var errTooLarge = fmt.Errorf("its files have more than %d MiB; list in .helmignore what no template reads", maxChart>>20)

// weight is the size of the files of a chart together, in bytes, subcharts in archives included.
type weight int64

// add counts a file, and looks into those that Helm parses while it loads a chart, or unpacks: their
// content may stand for much more than their size. An archive counts packed and unpacked.
func (w *weight) add(name string, data []byte) error {
	if *w += weight(len(data)); *w > maxChart {
		return errTooLarge
	}
	parsed := slices.Contains([]string{"Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"}, path.Base(name))
	switch {
	case strings.HasPrefix(name, "templates/"):
	case parsed:
		if err := manifest.Check(string(data)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case subchartArchive.MatchString(name):
		files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range files {
			if err := w.add(f.Name, f.Data); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// irregular is the error for a file that is no regular one: the read of a named pipe would wait for
// a writer, and that of a device may never end.
func irregular(name string) error {
	return fmt.Errorf("%s is neither a regular file nor a link to one; restore it, or remove it", name)
}

// HasContent reports whether a file says anything. White space and NUL bytes do not: a disk that was full, or a
// machine that has crashed, leaves such files.
func HasContent(data []byte) bool { return len(bytes.Trim(data, " \t\r\n\v\f\x00")) > 0 }

// inChart splits the name of a file into the chart or subchart that has it, and its name there.
var inChart = regexp.MustCompile(`^((?:chart/)?(?:charts/[^/]+/)*)(.*)$`)

// Lost finds what had content and has none now: a file, or a directory of a chart that is still there. A directory
// ends with a slash; "" for nothing. Such a tree is no order to delete what came from the lost content: the disk may
// be full, or a copy in progress (P8). had and has are names of files in a module or in a chart, and whether they
// have content. A file that is gone is one that was removed. So is a directory, unless it is templates/, or templates
// still read it: reads reports that.
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
