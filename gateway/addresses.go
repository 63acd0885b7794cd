package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// writeAddresses writes where each protocol is served as a JSON object, like {"amqp": "127.0.0.1:5672", "pid": "4711"}. The file appears whole, when connections
// are accepted; a program that starts a broker on free ports (port 0) waits for it.
func writeAddresses(name string, addresses map[string]string) error {
	full := map[string]string{"pid": strconv.Itoa(os.Getpid())}
	for protocol, a := range addresses {
		full[protocol] = a
	}
	text, err := json.MarshalIndent(full, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(name, append(text, '\n'))
}

// writeWhole makes a file that is never seen half written.
func writeWhole(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // it may be left over
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
