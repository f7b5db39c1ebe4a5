package values

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

var errNoJSONNumber = errors.New("infinite and undefined numbers cannot be written as JSON")

// resolvePlain returns the value of an unquoted scalar, as sigs.k8s.io/yaml reads it, with two
// differences that D4 requires: integers beyond 64 bits stay integers, and a number without a
// fraction is an integer. keyIs and isSafePlain rely on it as well, so reading and writing agree.
func resolvePlain(text string) (any, error) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nil, nil
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, nil
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, nil
	case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return nil, errNoJSONNumber
	}
	switch c := text[0]; {
	case c == '.':
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return float(f), nil
		}
	case c == '+' || c == '-' || isDigit(c):
		value := resolveNumber(text)
		if n, ok := value.(json.Number); ok && len(n) > maxDigits {
			return nil, errTooManyDigits
		}
		return value, nil
	}
	return text, nil
}

// resolveNumber reads text that begins like a number: decimal, 0x, 0o, 0b and the old octal form
// 0777, with underscores as separators. Text that is no number after all stays text.
func resolveNumber(text string) any {
	digits := strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(digits, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10))
	}
	if isBigInteger(digits) {
		return json.Number(strings.TrimPrefix(digits, "+"))
	}
	if strings.Trim(digits, "0123456789+-.eE") == "" { // no hexadecimal floats, no Infinity
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return float(f)
		}
	}
	return text
}

// isBigInteger accepts a sign and digits, the first of which is not zero.
func isBigInteger(s string) bool {
	s = strings.TrimLeft(s[:1], "+-") + s[1:]
	return s != "" && s[0] != '0' && allDigits(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func allDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// fitsTag reports whether a resolved value has the type of an explicit tag.
func fitsTag(tag string, value any) bool {
	switch v := value.(type) {
	case nil:
		return tag == "!!null"
	case bool:
		return tag == "!!bool"
	case int64, json.Number:
		return tag == "!!int" || tag == "!!float"
	case float64:
		return tag == "!!float" && !math.IsNaN(v)
	}
	return false
}
