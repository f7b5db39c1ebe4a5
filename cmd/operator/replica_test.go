package operator

import (
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// listening are options with addresses.
func listening(address string, port int) cli.Config {
	var c cli.Config
	c.ListenAddress, c.ListenPort = address, port
	return c
}

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config cli.Config
		want   string
	}{
		"the one it listens on":       {listening("127.0.0.1", 2), "127.0.0.1:2"},
		"the one it listens on, IPv6": {listening("fd00::1", 1), "[fd00::1]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := advertised(&c.config); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	everywhere := listening("0.0.0.0", 3)
	got, err := advertised(&everywhere)
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q, %v", got, err)
	}
}
