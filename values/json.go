package values

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// ParseJSON reads exactly one JSON value into a tree. Integers stay integers, whatever their size
// (D4). It refuses numbers beyond the range of a float64, and values that are larger than 4 MiB or
// nested more than 100 levels deep (D39). Of duplicate keys the last one wins.
func ParseJSON(data []byte) (any, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	return decodeJSON(data, maxDepth)
}

// decodeJSON is ParseJSON without the limit of the size, for so many levels of lists and maps.
func decodeJSON(data []byte, levels int) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, jsonError(data, decoder, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more text after the end of the JSON value", lineAt(data, decoder.InputOffset()))
	}
	return normalise(raw, levels)
}

// parseStrictJSON is ParseJSON by the rules of ParseYAML: it refuses duplicate keys, and counts an overhead for
// each value.
func parseStrictJSON(data []byte) (any, error) {
	tree, err := ParseJSON(data)
	if err == nil {
		err = bounded(tree)
	}
	if err != nil {
		return nil, err
	}
	var again any
	duplicates, err := kjson.UnmarshalStrict(data, &again)
	return tree, errors.Join(append(duplicates, err)...)
}

// jsonError adds the line to an error of the decoder. Syntax errors have an offset of their own;
// the decoder's is that of the last token that it read.
func jsonError(data []byte, decoder *json.Decoder, err error) error {
	offset := decoder.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("unexpected end of the JSON text")
	}
	return fmt.Errorf("line %d: %w", lineAt(data, offset), err)
}

// lineAt counts lines from 1, as editors do.
func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}

// normalise converts the json.Numbers of a freshly decoded value into the numbers of a tree. It
// writes into its argument, which is not shared yet.
func normalise(raw any, levels int) (tree any, err error) {
	if levels == 0 && isContainer(raw) {
		return nil, errTooDeep
	}
	switch v := raw.(type) {
	case map[string]any:
		for key, child := range v {
			if v[key], err = normalise(child, levels-1); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, child := range v {
			if v[i], err = normalise(child, levels-1); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return number(string(v))
	}
	return raw, nil
}

// number converts the text of a JSON number. An integer beyond int64 stays text, because a float64
// would lose digits.
func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		if len(text) > maxDigits {
			return nil, errTooManyDigits
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s does not fit into 64 bits", brief(text))
	}
	return float(f), nil
}

// float returns the tree of a float64: an int64 if it represents exactly one integer.
func float(f float64) any {
	if isIntegral(f) {
		return int64(f)
	}
	return f
}

// isIntegral reports whether a float64 represents exactly one integer. Above 2^53 it may represent
// several.
func isIntegral(f float64) bool {
	return f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

// Encode is json.Marshal without the escaping of <, > and &, which only makes sense inside HTML.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// JSON writes a tree in canonical form: keys sorted, no white space, no HTML escaping, integers
// without exponent. Equal trees give equal bytes.
func JSON(tree any) ([]byte, error) {
	return appendJSON(nil, tree)
}

func appendJSON(out []byte, tree any) ([]byte, error) {
	w := jsonWriter{out: out}
	err := w.write(tree)
	return w.out, err
}

// jsonWriter writes canonical JSON. encoding/json is no choice: it writes 1e+06 for such floats and
// has no canonical form for them.
type jsonWriter struct {
	out []byte
	// sink receives the output piece by piece, so that a checksum needs no memory for the whole
	// text. A nil sink leaves everything in out. It is a hash, which never fails.
	sink hash.Hash
}

// sinkAfter is the number of bytes that are collected before they go to the sink.
const sinkAfter = 32 << 10

func (w *jsonWriter) write(tree any) error {
	if w.sink != nil && len(w.out) >= sinkAfter {
		w.flush()
	}
	switch v := tree.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case string:
		w.out = appendString(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case json.Number:
		w.out = append(w.out, v...)
	case float64:
		var err error
		w.out, err = appendFloat(w.out, v)
		return err
	case []any:
		return w.writeList(v)
	case map[string]any:
		return w.writeMap(v)
	default:
		return fmt.Errorf("a value of type %T is not part of a tree", tree)
	}
	return nil
}

func (w *jsonWriter) flush() {
	_, _ = w.sink.Write(w.out)
	w.out = w.out[:0]
}

func (w *jsonWriter) writeList(list []any) error {
	w.out = append(w.out, '[')
	for i, child := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.write(child); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) writeMap(m map[string]any) error {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	w.out = append(w.out, '{')
	for i, key := range keys {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(appendString(w.out, key), ':')
		if err := w.write(m[key]); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// appendFloat writes huge integral floats with an exponent: without one they would be read as
// integers again. Tiny numbers have an exponent because they would be long without it.
func appendFloat(out []byte, f float64) ([]byte, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return out, fmt.Errorf("%v is not a JSON number", f)
	case isIntegral(f):
		return strconv.AppendInt(out, int64(f), 10), nil
	case f == math.Trunc(f) || math.Abs(f) < 1e-6:
		return strconv.AppendFloat(out, f, 'e', -1, 64), nil
	}
	return strconv.AppendFloat(out, f, 'f', -1, 64), nil
}

// appendString quotes a text. Most have nothing that must be escaped.
func appendString(out []byte, s string) []byte {
	special := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f || r == utf8.RuneError }
	if strings.IndexFunc(s, special) < 0 {
		return append(append(append(out, '"'), s...), '"')
	}
	text, _ := Encode(s)                                                          // of a string it cannot fail
	return append(out, bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`))...) // which YAML does not read
}

// Checksum returns the hexadecimal SHA-256 of the canonical JSON of a tree. Two trees have the same
// checksum exactly when they hold the same values; "changed" in the rules of the lifecycle means
// that the checksum changed (D27).
func Checksum(tree any) string {
	w := jsonWriter{sink: sha256.New()}
	if err := w.write(tree); err != nil {
		// Not a tree. It still needs a checksum that differs from those of trees.
		w.sink.Reset()
		w.out = []byte("invalid: " + err.Error())
	}
	w.flush()
	return hex.EncodeToString(w.sink.Sum(nil))
}
