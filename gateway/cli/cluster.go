package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"polylog/cluster"
)

func clusterCommand() Command {
	return Command{
		Name:    "cluster",
		Summary: "see and change which nodes are one broker",
		Usage: `polylog cluster COMMAND [flags]

Asks a running node about its cluster, by HTTP.`,
		Run: func(ctx context.Context, env Env, args []string) int {
			return Dispatch(ctx, env, clusterCommands(), args)
		},
	}
}

func clusterCommands() []Command {
	return []Command{
		{
			Name: "status", Summary: "show the nodes, who leads, and how far each has come",
			Usage: `polylog cluster status [flags]

Shows the cluster as the asked node sees it. The exit status is 1 if it cannot be asked, or takes no writes.`,
			Run: runClusterStatus,
		},
		{
			Name: "add", Summary: "show how a new node is started, and wait until it is a member",
			Usage: `polylog cluster add [flags] NAME ADDR

A node is added by starting it: it finds the cluster by the addresses of nodes that are there, and begins with a copy of another one's log.
This prints the command for a node called NAME that the others reach at ADDR (its cluster.listen), and waits until it has joined, or
as long as -wait says.`,
			Run: runClusterAdd,
		},
		{
			Name: "remove", Summary: "make a node that was stopped, or is lost, no member any more",
			Usage: `polylog cluster remove [flags] NAME

Removes a node for good: its vote does not count any more, and nothing is kept for it. It must be stopped first. It takes the cluster's
secret, from -secret or the environment variable POLYLOG_CLUSTER_SECRET.`,
			Run: runClusterRemove,
		},
	}
}

// clusterClient asks a node.
type clusterClient struct {
	http   string
	secret string
	http1  http.Client
}

func (c *clusterClient) addTo(fs *flag.FlagSet) {
	fs.StringVar(&c.http, "http", "127.0.0.1:15672", "ask the node whose http.listen is `ADDR`")
	c.http1.Timeout = 10 * time.Second
}

func (c *clusterClient) ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.http+path, nil)
	if err != nil {
		return nil, err
	}
	if c.secret != "" {
		req.Header.Set("Authorization", "Bearer "+c.secret)
	}
	res, err := c.http1.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the node at %s: %w; is it running, and is that its http.listen?", c.http, err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the node at %s: %w", c.http, err)
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("the node at %s is not one of a cluster (its cluster.listen is empty)", c.http)
	case res.StatusCode != http.StatusOK:
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (c *clusterClient) status(ctx context.Context) (st cluster.Status, err error) {
	body, err := c.ask(ctx, http.MethodGet, "/cluster")
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(body, &st)
}

func runClusterStatus(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	var c clusterClient
	c.addTo(fs)
	asJSON := fs.Bool("json", false, "print JSON")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() > 0 {
		return env.Misused("takes no arguments, got %q", fs.Arg(0))
	}
	st, err := c.status(ctx)
	if err != nil {
		return env.Failed(err)
	}
	if *asJSON {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(st)
	} else {
		err = printStatus(env.Stdout, &st)
	}
	if err != nil {
		return env.Failed(err)
	}
	if st.Unavailable != "" {
		return ExitFailed
	}
	return ExitOK
}

// printStatus prints a status for people.
func printStatus(out io.Writer, st *cluster.Status) error {
	fmt.Fprintf(out, "cluster %s, as node %s sees it\n", st.Cluster, st.Node) //nolint:errcheck // the flush at the end tells
	if st.Unavailable != "" {
		fmt.Fprintf(out, "WRITES ARE REFUSED: %s\n", st.Unavailable) //nolint:errcheck // likewise
	}
	o := &st.Order
	if o.Error != "" {
		fmt.Fprintf(out, "order: not known now (%s)\n\n", o.Error) //nolint:errcheck // likewise
	} else {
		fmt.Fprintf(out, "order: entries %d to %d, %.1f MiB, %d copies, first copy on %s\n", o.First, o.Last, float64(o.Bytes)/(1<<20), o.Copies, o.Leader) //nolint:errcheck // likewise
		if len(o.Behind) > 0 {
			fmt.Fprintf(out, "copies that are behind: %s\n", strings.Join(o.Behind, ", ")) //nolint:errcheck // likewise
		}
		fmt.Fprintln(out) //nolint:errcheck // likewise
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tID\tSTATE\tEPOCH\tHEARD\tLAG\tAMQP\tKAFKA\tHTTP\tVERSION") //nolint:errcheck // likewise
	for _, m := range st.Members {
		state := "live"
		switch {
		case m.Left && !m.Live:
			state = "stopped"
		case !m.Live:
			state = "gone"
		case m.Name == st.Leader:
			state = "leads"
		}
		heard := "now"
		if m.SilentMillis >= 1000 {
			heard = fmt.Sprintf("%ds ago", m.SilentMillis/1000)
		}
		//nolint:errcheck // likewise
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\n", m.Name, m.ID, state, m.Epoch, heard, m.Lag, orDash(m.Serves["amqp"]), orDash(m.Serves["kafka"]), orDash(m.Serves["http"]), orDash(m.Version))
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func runClusterAdd(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	var c clusterClient
	c.addTo(fs)
	wait := fs.Duration("wait", 10*time.Minute, "how long to wait until the node has joined; 0: not at all")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() != 2 {
		return env.Misused("takes the node's NAME and its ADDR")
	}
	name, addr := fs.Arg(0), fs.Arg(1)
	if err := cluster.CheckName(name); err != nil {
		return env.Misused("%s", err)
	}
	st, err := c.status(ctx)
	if err != nil {
		return env.Failed(err)
	}
	var seeds []string
	for _, m := range st.Members {
		if m.Name == name {
			return env.Failed(fmt.Errorf("there is a node '%s' in the cluster already", name))
		}
		if a := m.Serves["cluster"]; a != "" && m.Live {
			seeds = append(seeds, a)
		}
	}
	//nolint:errcheck // nothing can be told then
	fmt.Fprintf(env.Stdout, "start the node, with the cluster's secret in the environment:\n\n  POLYLOG_CLUSTER_SECRET=... polylog serve --node %s --cluster %s --seeds %s --set cluster.name=%s --data DIR\n\n",
		name, addr, strings.Join(append(seeds, addr), ","), st.Cluster)
	if *wait == 0 {
		return ExitOK
	}
	fmt.Fprintf(env.Stderr, "waiting until node %s is a member, at most %v\n", name, *wait) //nolint:errcheck // nothing can be told then
	ctx, cancel := context.WithTimeout(ctx, *wait)
	defer cancel()
	for {
		if st, err := c.status(ctx); err == nil {
			for _, m := range st.Members {
				if m.Name == name && m.Live {
					fmt.Fprintf(env.Stdout, "node %s is a member\n", name) //nolint:errcheck // nothing can be told then
					return ExitOK
				}
			}
		}
		select {
		case <-ctx.Done():
			return env.Failed(fmt.Errorf("node '%s' has not joined within %v", name, *wait))
		case <-time.After(time.Second):
		}
	}
}

func runClusterRemove(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	var c clusterClient
	c.addTo(fs)
	fs.StringVar(&c.secret, "secret", os.Getenv("POLYLOG_CLUSTER_SECRET"), "the cluster's `SECRET`")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() != 1 {
		return env.Misused("takes the node's NAME")
	}
	if _, err := c.ask(ctx, http.MethodDelete, "/cluster/"+url.PathEscape(fs.Arg(0))); err != nil {
		return env.Failed(err)
	}
	fmt.Fprintf(env.Stdout, "node %s is no member any more\n", fs.Arg(0)) //nolint:errcheck // nothing can be told then
	return ExitOK
}
