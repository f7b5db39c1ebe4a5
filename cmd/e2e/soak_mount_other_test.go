//go:build !linux

package e2e

import "errors"

func mountTmpfs(string) error { return errors.ErrUnsupported }

func remount(string, bool) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
