package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/manifest"
)

// What a record may unpack to. A secret holds 1 MiB, so an honest record is far
// below; a crafted one must not fill the memory. What is written keeps to it, too.
const (
	maxRecord = 32 << 20 // bytes of JSON
	maxValues = 500_000  // values in it: a short one takes twenty times its text
)

// encoder writes records. It keeps its compressors: a new one takes a megabyte, and longer than all
// the rest of a small record. It is safe for concurrent use.
type encoder struct{ packers sync.Pool }

// encode writes Helm's form of a record: base64 of gzip of JSON. The fastest
// level of gzip needs a tenth of the time Helm's own driver spends and makes
// records a fifth larger; templates and files, which would make up most of them,
// are not stored.
func (e *encoder) encode(rel *release.Release) ([]byte, error) {
	packer, ok := e.packers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if packer, err = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.packers.Put(packer)
	raw, err := json.Marshal(rel)
	if err == nil {
		err = errors.Join(checkRecord(raw), checkManifests(rel))
	}
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &buf)
	packer.Reset(text)
	_, err = packer.Write(append(raw, '\n'))
	err = errors.Join(err, packer.Close(), text.Close())
	return buf.Bytes(), err
}

// checkRecord refuses JSON that takes too much memory, before it is decoded (D39). It counts what
// begins or separates values outside of strings, in one pass and without a parser.
func checkRecord(raw []byte) error {
	if len(raw) > maxRecord {
		return fmt.Errorf("larger than %d MiB", maxRecord>>20)
	}
	values, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch char := raw[i]; {
		case char == '"':
			quoted = !quoted
		case char == '\\':
			i++ // the next one is no end of a text
		case !quoted && (char == ',' || char == '[' || char == '{'):
			values++
		}
	}
	if values > maxValues {
		return fmt.Errorf("more than %d values", maxValues)
	}
	return nil
}

// checkManifests refuses manifests that would take too much memory when they are parsed. A null
// among the hooks, which Helm never writes, would be a nil pointer in everything that follows.
func checkManifests(rel *release.Release) error {
	if err := manifest.Check(rel.Manifest); err != nil {
		return err
	}
	for _, h := range rel.Hooks {
		if h == nil {
			return errors.New("one of its hooks is empty")
		}
		if err := manifest.Check(h.Manifest); err != nil {
			return fmt.Errorf("hook %s: %w", h.Path, err)
		}
	}
	return nil
}

// decodeRelease reads a record; older ones may not be compressed.
func decodeRelease(data []byte) (*release.Release, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		packed, err := gzip.NewReader(bytes.NewReader(raw))
		if err == nil { // one byte more than checkRecord accepts shows that it is too large
			raw, err = io.ReadAll(io.LimitReader(packed, maxRecord+1))
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if err := checkRecord(raw); err != nil {
		return nil, err
	}
	rel := &release.Release{}
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // values keep their digits; Helm itself would read floats
	if err := numbers.Decode(rel); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if rel.Info == nil || rel.Chart == nil {
		return nil, errors.New("info or chart is missing")
	}
	return rel, checkManifests(rel)
}
