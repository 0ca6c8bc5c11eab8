// A client that openapi-generator made: registers, writes, reads, and is told what is wrong.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	estimand "example.org/estimand"
)

func must(holds bool, found ...any) {
	if !holds {
		panic(fmt.Sprint(found...))
	}
}

func main() {
	configuration := estimand.NewConfiguration()
	configuration.Servers = estimand.ServerConfigurations{{URL: os.Getenv("ESTIMAND_SERVER")}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Getenv("ESTIMAND_TOKEN"))
	client, ctx := estimand.NewAPIClient(configuration), context.Background()

	var registration estimand.RegistrationInput
	must(json.Unmarshal([]byte(`{"dataName":"by_go","cmd":"true","max-Time":5}`), &registration) == nil)
	made, response, err := client.RegistryAPI.PostRegistry(ctx).RegistrationInput(registration).Execute()
	must(err == nil && response.StatusCode == 201 && made.GetVersion() == 1, err, response)

	var write estimand.Write
	must(json.Unmarshal([]byte(`{"dataName":"written_by_go","nodeName":"n1","dataValue":0.5}`), &write) == nil)
	_, response, err = client.DataAPI.PostData(ctx).Write(write).Execute()
	must(err == nil && response.StatusCode == 201, err, response)
	values, _, err := client.DataAPI.ReadData(ctx).DataName("written_by_go").Execute()
	must(err == nil && len(values) == 1 && values[0].GetNodeName() == "n1" && values[0].GetDataValue() == 0.5, err, values)
	_, response, err = client.DataAPI.ReadOneDataDataNameNodeName(ctx, "nothing", "n1").Execute()
	must(err != nil && response.StatusCode == 404, err)
	fmt.Println("openapi-generator, go: registers, writes and reads")
}
