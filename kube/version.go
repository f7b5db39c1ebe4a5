package kube

import (
	"cmp"
	"strconv"
)

// compareVersions compares two resourceVersions, which the API server lets clients treat as numbers. It is false
// when one of them is no number: the version of an object that does not exist is empty.
func compareVersions(a, b string) (int, bool) {
	x, err := strconv.ParseUint(a, 10, 64)
	y, otherErr := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y), err == nil && otherErr == nil
}

// Older reports whether the resourceVersion a is from before b. Versions that cannot be compared, such as the empty one of
// an object that does not exist, are not older.
func Older(a, b string) bool {
	order, ok := compareVersions(a, b)
	return ok && order < 0
}
