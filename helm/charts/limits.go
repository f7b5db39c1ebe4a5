package charts

import (
	"bytes"
	"fmt"
	"io/fs"
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

// readFiles reads the files of a chart that .helmignore does not name, as Helm's loader does, but refuses a chart that
// is too large, or whose YAML would be with all aliases written out. A synthesised one lacks what templates never read.
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
