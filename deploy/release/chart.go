package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

const chartDir = "deploy/chart"

// writeChart packages the chart of the Deployment at this version, as 'helm package' does, and
// packs the archive again: Helm's has the time of its making.
func (r release) writeChart() error {
	c, err := loader.LoadDir(filepath.Join(r.root, chartDir))
	if err != nil {
		return err
	}
	c.Metadata.Version, c.Metadata.AppVersion = r.bare(), r.bare()
	if err := r.nameImage(c); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packaged, err := chartutil.Save(c, dir)
	if err != nil {
		return err
	}
	files, err := unpack(packaged)
	if err != nil {
		return err
	}
	return r.writeArchive(filepath.Base(packaged), files)
}

// nameImage makes the image of this release the default of the chart. It edits the text of
// values.yaml, to keep the comments, and fails when the text is not as expected: a chart with the
// wrong image must not be published. Helm packages Raw, so that is changed.
func (r release) nameImage(c *chart.Chart) error {
	// The first repository in the section image, whatever is before it there.
	repository := regexp.MustCompile(`(?m)^(image:\n(?: {2}.*\n)*? {2}repository:) addon-operator\b`)
	for _, f := range c.Raw {
		if f.Name == chartutil.ValuesfileName {
			if !repository.Match(f.Data) {
				return fmt.Errorf("%s/%s: image.repository is not addon-operator, so the image of the release cannot be named there", chartDir, f.Name)
			}
			f.Data = repository.ReplaceAll(f.Data, []byte("${1} "+r.image))
			return nil
		}
	}
	return fmt.Errorf("%s has no %s", chartDir, chartutil.ValuesfileName)
}

// unpack reads the files of a tar.gz into memory, with their paths and whether they are executable.
func unpack(path string) (files []file, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for all := tar.NewReader(unzipped); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		content, err := io.ReadAll(all)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, header.Name, err)
		}
		files = append(files, file{name: header.Name, data: content, executable: header.Mode&0o111 != 0})
	}
}

// writeManifests packs deploy/manifests, which are renders of the chart at its own version, with
// the version of the release in its place.
func (r release) writeManifests() error {
	c, err := loader.LoadDir(filepath.Join(r.root, chartDir))
	if err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(r.root, "deploy/manifests/*.yaml"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("there are no deploy/manifests/*.yaml")
	}
	// The version is replaced only where it is known to be that of the program: it may occur
	// elsewhere.
	versions := strings.NewReplacer(
		`image: "addon-operator:`+c.Metadata.AppVersion+`"`, `image: "`+r.image+":"+r.bare()+`"`,
		`app.kubernetes.io/version: "`+c.Metadata.AppVersion+`"`, `app.kubernetes.io/version: "`+r.bare()+`"`,
		`helm.sh/chart: addon-operator-`+c.Metadata.Version, `helm.sh/chart: addon-operator-`+r.bare(),
	)
	var files []file
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files = append(files, file{name: filepath.Base(path), data: []byte(versions.Replace(string(text)))})
	}
	return r.writeArchive(fmt.Sprintf("%s_%s_manifests.tar.gz", program, r.version), files)
}
