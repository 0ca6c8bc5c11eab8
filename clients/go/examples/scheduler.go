// A scheduler in 60 lines: `go run ./scheduler node_load /bin/echo part` runs the command on the node that is least loaded by
// the values of that name.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	estimand "example.org/estimand"
)

// leastLoaded is the policy: of the nodes with a number the one with the smallest; "" if there is none.
func leastLoaded(values []estimand.Value) string {
	node, least := "", math.Inf(1)
	for _, value := range values {
		if load, isNumber := value.GetDataValue().(float64); isNumber && load < least {
			node, least = value.GetNodeName(), load
		}
	}
	return node
}

// must gives what a request gave, or ends with the problem that the service tells.
func must[T any](found T, _ any, err error) T {
	if problem, is := err.(*estimand.GenericOpenAPIError); is {
		err = fmt.Errorf("%w: %s", err, problem.Body())
	}
	if err != nil {
		log.Fatal(err)
	}
	return found
}

func main() {
	configuration := estimand.NewConfiguration()
	configuration.Servers = estimand.ServerConfigurations{{URL: os.Getenv("ESTIMAND_SERVER")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("ESTIMAND_TOKEN"))
	client, ctx := estimand.NewAPIClient(configuration), context.Background()
	fact, command := os.Args[1], os.Args[2:]
	node := leastLoaded(must(client.DataAPI.ReadData(ctx).DataName(fact).State("fresh").Execute()))
	if node == "" {
		log.Fatalf("no node has a fresh number of %s", fact)
	}
	var document estimand.TaskDocument
	document.SetCommand(estimand.ArrayOfStringAsCommand(&command))
	// Each node has the label `node` with its name.
	document.SetNodes("node=" + node)
	task := must(client.TasksAPI.SubmitTasks(ctx).TaskDocument(document).Execute())
	for !task.HasEndedAt() {
		task = must(client.TasksAPI.GetTasks(ctx, task.GetId()).WaitMs(20_000).Execute())
	}
	for _, line := range must(client.TasksAPI.LogsTasks(ctx, task.GetId()).Execute()).Lines {
		fmt.Printf("%s: %s\n", task.GetNode(), line.GetText())
	}
	fmt.Println(task.GetId(), task.GetState())
}
