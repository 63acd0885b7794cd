package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"polylog/e2e/harness"
)

// sarama's functional tests want a cluster of five brokers behind a proxy, at fixed ports, with an HTTP interface by which they cut connections. One broker is put
// behind all five ports. What asks for copies on several brokers is made to ask for one, in a copy of the sources that lies in a temporary folder.
const (
	proxyModule  = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"
	proxies      = 5
	proxyFirst   = 29091 // fixed in the suite
	kafkaVersion = "4.1.0"
)

func prepareSarama(ctx context.Context, module, address string) (env, args []string, end func() error, err error) {
	temp, err := os.MkdirTemp("", "polylog-sarama-")
	if err != nil {
		return nil, nil, nil, err
	}
	overlay, err := oneCopy(module, temp)
	if err != nil {
		return nil, nil, nil, errors.Join(err, os.RemoveAll(temp))
	}
	api, stop, err := startProxy(ctx, temp, address)
	end = func() error { return errors.Join(stop(), os.RemoveAll(temp)) }
	if err != nil {
		return nil, nil, nil, errors.Join(err, end())
	}
	return []string{"TOXIPROXY_ADDR=http://" + api, "KAFKA_VERSION=" + kafkaVersion}, []string{"-overlay", overlay}, end, nil
}

// oneCopy writes the sources that ask for several copies anew, and the overlay that takes their place.
func oneCopy(module, temp string) (overlay string, err error) {
	sources, err := filepath.Glob(filepath.Join(module, "functional*_test.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		changed := bytes.ReplaceAll(text, []byte("ReplicationFactor: 3,"), []byte("ReplicationFactor: 1,"))
		if bytes.Equal(changed, text) {
			continue
		}
		replace[name] = filepath.Join(temp, filepath.Base(name))
		if err := os.WriteFile(replace[name], changed, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(temp, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// startProxy builds and starts the proxy, with all its ports leading to address.
func startProxy(ctx context.Context, temp, address string) (api string, stop func() error, err error) {
	stop = nothing
	install := exec.CommandContext(ctx, "go", "install", proxyModule)
	install.Env = append(os.Environ(), "GOBIN="+temp, "GOFLAGS=")
	install.Dir = temp
	if text, err := install.CombinedOutput(); err != nil {
		return "", stop, fmt.Errorf("building %s: %w: %s", proxyModule, err, text)
	}
	port, err := harness.FreePort()
	if err != nil {
		return "", stop, err
	}
	api = fmt.Sprintf("127.0.0.1:%d", port)
	server := exec.Command(filepath.Join(temp, "server"), "-host", "127.0.0.1", "-port", fmt.Sprint(port))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return "", stop, err
	}
	stop = func() error {
		err := server.Process.Kill()
		server.Wait() //nolint:errcheck // it was killed
		return err
	}
	for i := range proxies {
		proxy := map[string]any{"name": fmt.Sprintf("kafka%d", i+1), "listen": fmt.Sprintf("127.0.0.1:%d", proxyFirst+i), "upstream": address, "enabled": true}
		body, err := json.Marshal(proxy)
		if err != nil {
			return "", stop, err
		}
		err = harness.Await(10*time.Second, "the proxy to take its ports", func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+api+"/proxies", bytes.NewReader(body))
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close() //nolint:errcheck // its status says all
			if res.StatusCode != http.StatusCreated {
				return fmt.Errorf("the proxy answers %s", res.Status)
			}
			return nil
		})
		if err != nil {
			return "", stop, err
		}
	}
	return api, stop, nil
}
