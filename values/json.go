package values

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads exactly one JSON value into a tree. Integers stay integers, whatever their size (D4); numbers beyond the
// range of a float64 are refused.
func ParseJSON(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, jsonError(data, decoder, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more text after the end of the JSON value", lineAt(data, decoder.InputOffset()))
	}
	return normalise(raw)
}

// jsonError adds the line to an error of the decoder.
func jsonError(data []byte, decoder *json.Decoder, err error) error {
	offset := decoder.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON text ends too early")
	}
	return fmt.Errorf("line %d: %w", lineAt(data, offset), err)
}

// lineAt counts lines from 1, as editors do.
func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}

// normalise turns the json.Numbers of a freshly decoded value into the numbers of a tree. It writes into its argument,
// which nobody else has seen yet.
func normalise(raw any) (any, error) {
	switch v := raw.(type) {
	case map[string]any:
		for key, child := range v {
			tree, err := normalise(child)
			if err != nil {
				return nil, err
			}
			v[key] = tree
		}
	case []any:
		for i, child := range v {
			tree, err := normalise(child)
			if err != nil {
				return nil, err
			}
			v[i] = tree
		}
	case json.Number:
		return number(string(v))
	}
	return raw, nil
}

// number converts the text of a JSON number.
func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s does not fit into 64 bits", text)
	}
	return float(f), nil
}

// float gives the tree of a float64: an int64 when it has no fraction and was exact.
func float(f float64) any {
	if isIntegral(f) {
		return int64(f)
	}
	return f
}

// isIntegral tells whether a float64 stands for exactly one integer. Above 2^53 it may stand for several.
func isIntegral(f float64) bool {
	return f == math.Trunc(f) && math.Abs(f) <= 1<<53
}

// JSON writes a tree in canonical form: keys sorted, no white space, no HTML escaping, integers without exponent. Equal
// trees give equal bytes.
func JSON(tree any) ([]byte, error) {
	return appendJSON(nil, tree)
}

// appendJSON is written by hand: encoding/json writes 1e+06 for floats like that and knows no canonical form of them.
func appendJSON(out []byte, tree any) ([]byte, error) {
	switch v := tree.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case string:
		return appendString(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case int:
		return strconv.AppendInt(out, int64(v), 10), nil
	case json.Number:
		return append(out, v...), nil
	case float64:
		return appendFloat(out, v)
	case []any:
		return appendList(out, v)
	case map[string]any:
		return appendMap(out, v)
	}
	return nil, fmt.Errorf("a value of type %T is not part of a tree", tree)
}

func appendList(out []byte, list []any) ([]byte, error) {
	out = append(out, '[')
	for i, child := range list {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendJSON(out, child); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func appendMap(out []byte, m map[string]any) ([]byte, error) {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out = append(out, '{')
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, key), ':')
		var err error
		if out, err = appendJSON(out, m[key]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendFloat writes huge integral floats with an exponent, so that they are read as floats again.
func appendFloat(out []byte, f float64) ([]byte, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return nil, fmt.Errorf("%v is not a JSON number", f)
	case isIntegral(f):
		return strconv.AppendInt(out, int64(f), 10), nil
	case f == math.Trunc(f) || math.Abs(f) < 1e-6:
		return strconv.AppendFloat(out, f, 'e', -1, 64), nil
	}
	return strconv.AppendFloat(out, f, 'f', -1, 64), nil
}

const hexDigits = "0123456789abcdef"

// appendString quotes a text. Bytes that are not UTF-8 become the replacement character, as in encoding/json.
func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	plain := 0 // start of the run that can be copied as it is
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				out = append(append(out, s[plain:i]...), "\ufffd"...)
				plain = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		out = append(out, s[plain:i]...)
		out = appendEscape(out, c)
		i++
		plain = i
	}
	return append(append(out, s[plain:]...), '"')
}

// appendEscape writes the characters that JSON cannot hold as they are.
func appendEscape(out []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Checksum is the hexadecimal SHA-256 of the canonical JSON of a tree. Two trees have the same checksum exactly when they
// hold the same values; "changed" in the rules of the lifecycle means that the checksum changed (D27).
func Checksum(tree any) string {
	text, err := JSON(tree)
	if err != nil {
		// Not a tree. It still needs a checksum that differs from those of trees.
		text = []byte("invalid: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
