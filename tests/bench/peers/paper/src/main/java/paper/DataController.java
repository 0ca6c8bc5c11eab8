package paper;

import java.util.List;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

/** The data requests of the paper's Table 1. */
@RestController
@RequestMapping("/api/data")
public class DataController {
    private final DataDao data;

    public DataController(DataDao data) {
        this.data = data;
    }

    @GetMapping
    public List<Datum> read(@RequestParam String dataName, @RequestParam(required = false) String dataNode) {
        return dataNode == null ? data.find(dataName) : data.find(dataName, dataNode);
    }

    @PostMapping
    public void write(@RequestBody Datum datum) {
        data.write(datum);
    }
}
