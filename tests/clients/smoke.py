"""A client that openapi-python-client made: registers, writes, reads, and is told what is wrong."""

import os

from estimand_client import AuthenticatedClient
from estimand_client.api.data import post_data, read_data, read_one_data_data_name_node_name
from estimand_client.api.registry import get_registry_data_name, post_registry
from estimand_client.models import RegistrationInput, Write

client = AuthenticatedClient(base_url=os.environ["ESTIMAND_SERVER"], token=os.environ["ESTIMAND_TOKEN"])

registration = RegistrationInput.from_dict({"dataName": "by_python", "cmd": "true", "max-Time": 5})
made = post_registry.sync_detailed(client=client, body=registration)
assert made.status_code == 201, made
found = get_registry_data_name.sync(client=client, data_name="by_python")
assert found.data_name == "by_python" and found.version == 1, found

write = Write.from_dict({"dataName": "written_by_python", "nodeName": "n1", "dataValue": 0.5})
assert post_data.sync_detailed(client=client, body=write).status_code == 201
values = read_data.sync(client=client, data_name="written_by_python")
assert [(value.node_name, value.data_value) for value in values] == [("n1", 0.5)], values
missing = read_one_data_data_name_node_name.sync(client=client, data_name="nothing", node_name="n1")
assert missing.status == 404 and missing.type_ == "not-found", missing
print("openapi-python-client: registers, writes and reads")
