package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sumsFile has the format of sha256sum. It also marks a directory as a release; see mayReplace.
const sumsFile = "SHA256SUMS"

// file is a file of an archive; name is its path there.
type file struct {
	name       string
	data       []byte
	executable bool
}

// archive makes a tar.gz that depends on nothing but the files and the time: they are in the order
// of their names and belong to root, and the header of gzip has neither a time nor a name. USTAR
// has times in whole seconds and no extensions, which would hold more of the machine.
func archive(files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	// The caller's list keeps its order.
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, f := range files {
		mode := int64(0o644)
		if f.executable {
			mode = 0o755
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.data)), Mode: mode, ModTime: date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// writeArchive writes an archive of files into the release, with the time of the commit.
func (r release) writeArchive(name string, files []file) error {
	data, err := archive(files, r.date)
	if err != nil {
		return err
	}
	return r.write(name, data)
}

// write writes a file of the release. All of them are in one directory.
func (r release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// writeArchives packs each program with its licence and those of the modules in it, which most
// licences require in each copy. writeLicences comes before it.
func (r release) writeArchives(programs []binary) error {
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	others, err := os.ReadFile(filepath.Join(r.out, licencesFile))
	if err != nil {
		return err
	}
	for _, p := range programs {
		data, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		err = r.writeArchive(r.name(p.platform)+".tar.gz", []file{
			{name: "LICENSE", data: licence},
			{name: licencesFile, data: others},
			{name: program, data: data, executable: true},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSums writes the sums of all files that are in the release by then, so it comes last.
func (r release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		sum, err := r.sum(entry.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, entry.Name())
	}
	return r.write(sumsFile, []byte(sums.String()))
}

// sum is the SHA-256 of a file of the release, in hexadecimal.
func (r release) sum(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.out, name))
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}
