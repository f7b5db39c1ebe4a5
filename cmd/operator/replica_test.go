package operator

import (
	"strings"
	"testing"

	"addon-operator/cmd/cli"
)

// listening are options with addresses.
func listening(advertised, address string, port int) cli.Config {
	var c cli.Config
	c.AdvertiseAddress, c.ListenAddress, c.ListenPort = advertised, address, port
	return c
}

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config cli.Config
		want   string
	}{
		"given":                 {listening("10.0.0.7", "0.0.0.0", 1), "10.0.0.7:1"},
		"given, IPv6":           {listening("fd00::1", "", 1), "[fd00::1]:1"},
		"the one it listens on": {listening("", "127.0.0.1", 2), "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := advertised(&c.config); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	everywhere := listening("", "0.0.0.0", 3)
	got, err := advertised(&everywhere)
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q, %v", got, err)
	}
}
