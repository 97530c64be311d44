// Data: every format gives the samples that were written, and what is missing or damaged is said.
#include "fake_model.h"

namespace {

using namespace fake;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Action>
std::string fault_of(Action action) {
  try {
    action();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

class Data : public testing::Test {
 protected:
  Data() : model_(fresh_folder("data")) {}
  std::string path(const std::string& name) const { return model_.folder + "/" + name; }

  std::vector<double> sample(const Column& column, int64_t k) const {
    const int64_t count = element_count(column.dims.data(), static_cast<int32_t>(column.dims.size()));
    std::vector<double> values(static_cast<size_t>(count));
    read_elements(column.dtype, column.data + k * column.stride, count, values.data());
    return values;
  }
  Model model_;
};

TEST_F(Data, Idx) {
  model_.write("a", std::string("\0\0\x0b\2\0\0\0\2\0\0\0\3\0\1\0\2\0\3\xff\xfe\0\5\1\0", 24));
  const Column column = read_idx(path("a"));
  EXPECT_EQ(column.count, 2);
  EXPECT_THAT(sample(column, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(sample(column, 1), ElementsAre(-2, 5, 256));
  const std::string whole = content(path("a"));
  for (size_t size = 0; size < whole.size(); ++size) {
    model_.write("cut", whole.substr(0, size));
    EXPECT_NE(fault_of([&] { read_idx(path("cut")); }), "") << size;
  }
}

TEST_F(Data, Cifar) {
  std::string file;
  for (int k = 0; k < 3; ++k) file += static_cast<char>(k) + std::string(3072, static_cast<char>(10 + k));
  model_.write("test_batch.bin", file);
  const auto files = cifar_files(model_.folder, false, false);
  EXPECT_THAT(sample(read_cifar(files, false, "label"), 2), ElementsAre(2));
  EXPECT_EQ(sample(read_cifar(files, false, "image"), 1), std::vector<double>(3072, 11));
  EXPECT_THAT(fault_of([&] { read_cifar(files, false, "fine"); }), HasSubstr("no \"fine\""));
  EXPECT_THAT(fault_of([&] { cifar_files(model_.folder, false, true); }), HasSubstr("data_batch_1.bin"));
  model_.write("test_batch.bin", file.substr(1));
  EXPECT_THAT(fault_of([&] { read_cifar(files, false, "label"); }), HasSubstr("no whole records of 3073"));
}

TEST_F(Data, Csv) {
  model_.write("a.csv", "id,\"size, cm\",kind\r\n1,2.5,cat\r\n2,1e3,\"dog\"\n\n3,-4,\"a \"\"big\"\" cat\"\n");
  const CsvTable table(path("a.csv"));
  std::vector<std::string> classes;
  const Column kind = table.column(table.columns("kind", {}), &classes);
  EXPECT_THAT(classes, ElementsAre("a \"big\" cat", "cat", "dog"));
  EXPECT_THAT(sample(kind, 0), ElementsAre(1));
  EXPECT_THAT(sample(table.column(table.columns("size, cm", {}), &classes), 2), ElementsAre(-4));
  EXPECT_THAT(sample(table.column(table.columns("*", {2}), &classes), 1), ElementsAre(2, 1000));
  EXPECT_THAT(sample(table.column(table.columns("0-1", {}), &classes), 1), ElementsAre(2, 1000));
  EXPECT_THAT(fault_of([&] { table.columns("colour", {}); }),
              HasSubstr("no column \"colour\"; it has 3 columns: \"id\", \"size, cm\", \"kind\""));
  EXPECT_THAT(fault_of([&] { table.column(table.columns("id,kind", {}), &classes); }),
              HasSubstr("line 2: \"cat\" in column \"kind\" is no number"));
  model_.write("b.csv", "1,2,3\n4,5\n");
  EXPECT_THAT(fault_of([&] { CsvTable(path("b.csv")); }), HasSubstr("line 2: 2 fields, the first line has 3"));
}

TEST_F(Data, NpzStoredAndInflated) {
  EXPECT_THAT(fault_of([&] { read_npz(path("data.npz"), "z"); }), HasSubstr("no entry \"z\"; it has \"x\", \"y\""));
  EXPECT_EQ(read_npz(path("data.npz"), "y").count, 100);
#ifdef METAC_STB_IMAGE
  // numpy.savez_compressed(f, x=numpy.arange(6, dtype=numpy.int16).reshape(3, 2))
  const std::string npz(
      "\x50\x4b\x03\x04\x2d\x00\x00\x00\x08\x00\x00\x00\x21\x00\x75\x88\x23\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14"
      "\x00\x78\x2e\x6e\x70\x79\x01\x00\x10\x00"
      "\x8c\x00\x00\x00\x00\x00\x00\x00\x52\x00\x00\x00\x00\x00\x00\x00\x9b\xec\x17\xea\x1b\x10\xc9\xc8\x50\xc6\x50\xad\x9e"
      "\x92\x5a\x9c\x5c\xa4\x6e\xa5\xa0\x6e\x93"
      "\x69\xa4\xae\xa3\xa0\x9e\x96\x5f\x54\x52\x94\x98\x17\x9f\x5f\x94\x92\x0a\x12\x77\x4b\xcc\x29\x4e\x05\x8a\x17\x67\x24"
      "\x16\xa4\x02\xf9\x1a\xc6\x3a\x0a\x46\x9a"
      "\x3a\x0a\xb5\x0a\x64\x03\x2e\x06\x06\x46\x06\x26\x06\x66\x06\x16\x06\x56\x06\x00\x50\x4b\x01\x02\x2d\x03\x2d\x00\x00"
      "\x00\x08\x00\x00\x00\x21\x00\x75\x88\x23"
      "\xbb\x52\x00\x00\x00\x8c\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00\x78\x2e"
      "\x6e\x70\x79\x50\x4b\x05\x06\x00\x00\x00"
      "\x00\x01\x00\x01\x00\x33\x00\x00\x00\x89\x00\x00\x00\x00\x00",
      210);
  model_.write("a.npz", npz);
  EXPECT_THAT(sample(read_npz(path("a.npz"), "x"), 2), ElementsAre(4, 5));
  std::string damaged = npz;
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  model_.write("a.npz", damaged);
  EXPECT_THAT(fault_of([&] { read_npz(path("a.npz"), "x"); }), HasSubstr("damaged"));
#endif
}

#ifdef METAC_STB_IMAGE
TEST_F(Data, GzipIsInflated) {
  const std::string gz(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88\x59\x0b\x18\x00\x00\x00",
      29);
  model_.write("a.gz", gz);
  const auto file = map_file(path("a.gz"));
  EXPECT_EQ(std::string(file->data, file->size), "hello hello hello hello\n");
  for (size_t size = 1; size < gz.size(); ++size) {
    model_.write("a.gz", gz.substr(0, size));
    EXPECT_NE(fault_of([&] { map_file(path("a.gz")); }), "") << size;
  }
}
#endif

TEST_F(Data, WhatIsMissingIsListed) {
  std::filesystem::remove(path("data.npz"));
  const Outcome outcome = run(model_, path("run"), {});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no data for training. Looked for:\n  " + path("data.npz") + "\n"));
  EXPECT_THAT(outcome.err, HasSubstr("--data DIR"));
}

TEST_F(Data, ShapesAndLengthsMustFit) {
  std::vector<float> x(20 * 7);
  std::vector<int64_t> y(19);
  model_.write("data.npz", Model::zip({{"x.npy", Model::npy(ScalarType::f32, {20, 7}, x.data())},
                                       {"y.npy", Model::npy(ScalarType::i64, {19}, y.data())}}));
  EXPECT_THAT(run(model_, path("run"), {}).err, HasSubstr("a sample has the shape [7], the model's \"x\" takes [8]"));
  x.resize(20 * 8);
  model_.write("data.npz", Model::zip({{"x.npy", Model::npy(ScalarType::f32, {20, 8}, x.data())},
                                       {"y.npy", Model::npy(ScalarType::i64, {19}, y.data())}}));
  EXPECT_THAT(run(model_, path("run"), {}).err, HasSubstr("has 20 samples"));
  const float half = 0.5f;
  std::vector<float> labels(20, half);
  model_.write("data.npz", Model::zip({{"x.npy", Model::npy(ScalarType::f32, {20, 8}, x.data())},
                                       {"y.npy", Model::npy(ScalarType::f32, {20}, labels.data())}}));
  EXPECT_THAT(run(model_, path("run"), {}).err, HasSubstr("0.5 is no value of the integer type that the model's \"y\" has"));
}

TEST_F(Data, EveryEpochHasEverySampleOnceInAnotherOrder) {
  const OpenedData data = open_data(model_.tables, model_.folder, 3);
  std::vector<std::vector<int64_t>> epochs;
  for (const int threads : {1, 4}) {
    BatchLoader loader(model_.tables, data.train, {true, false, true, 3, threads});
    loader.start(0, 0);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> seen;
      for (int64_t batch = 0; batch < loader.batches_per_epoch(); ++batch) {
        const Batch& b = loader.next();
        seen.insert(seen.end(), b.samples.begin(), b.samples.begin() + static_cast<std::ptrdiff_t>(b.valid));
      }
      epochs.push_back(seen);
      std::sort(seen.begin(), seen.end());
      for (int64_t k = 0; k < 100; ++k) ASSERT_EQ(seen.at(static_cast<size_t>(k)), k);
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(epochs[0], epochs[2]);
  EXPECT_EQ(epochs[1], epochs[3]);
}

int64_t resident_bytes() {
  int64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// An epoch over 64 MiB, in the file's order and shuffled, copied and converted, leaves none of them in the process's memory.
TEST_F(Data, LargeFilesStayOutOfMemory) {
  constexpr int64_t count = 16384, width = 1024, batch = 64;
  {
    std::ofstream file(path("large.npy"), std::ios::binary);
    const int64_t dims[] = {count, width};
    file << metac_runtime::npy_header(ScalarType::f32, dims, 2);
    std::vector<float> row(width);
    for (int64_t k = 0; k < count; ++k) {
      row[0] = static_cast<float>(k);
      file.write(reinterpret_cast<const char*>(row.data()), width * 4);
    }
  }
  const Column column = read_npy(path("large.npy"));
  const Field field{"x", ScalarType::f32, 1, {width}};
  std::vector<float> got(batch * width);
  SampleReader reader;
  for (const bool shuffled : {false, true}) {
    for (const double scale : {1.0, 2.0}) {
      const FieldSource source{"x", scale, nullptr, nullptr, 0, false, false, 0};
      const std::vector<int64_t> order = permutation(count, 3, Stream::order, 0);
      const int64_t before = resident_bytes();
      for (int64_t first = 0; first < count; first += batch) {
        std::vector<int64_t> samples;
        for (int64_t k = first; k < first + batch; ++k) samples.push_back(shuffled ? order[static_cast<size_t>(k)] : k);
        reader.read_all(column, source, field, samples, {}, reinterpret_cast<char*>(got.data()));
        for (size_t k = 0; k < batch; ++k)
          ASSERT_EQ(got[k * width], static_cast<float>(scale * static_cast<double>(samples[k])));
      }
      EXPECT_LT(resident_bytes() - before, 16 << 20) << shuffled << " " << scale;
    }
  }
  std::filesystem::resize_file(path("large.npy"), 1 << 20);
  EXPECT_THAT(fault_of([&] {
                reader.read(column, {"x", 1, nullptr, nullptr, 0, false, false, 0}, field, count - 1, {},
                            reinterpret_cast<char*>(got.data()));
              }),
              HasSubstr("large.npy ends at byte"));
}

// What several processes take of an epoch is together, in their order, what one takes whose batch is as large as all of
// theirs.
TEST_F(Data, ProcessesShareBatches) {
  const OpenedData data = open_data(model_.tables, model_.folder, 3);
  model_.tables.settings.batch = 12;
  for (const bool drop_last : {false, true}) {
    BatchLoader whole(model_.tables, data.train, {true, drop_last, true, 3, 1});
    model_.tables.settings.batch = 4;
    std::vector<std::unique_ptr<BatchLoader>> shares;
    for (int p = 0; p < 3; ++p) {
      shares.push_back(
          std::make_unique<BatchLoader>(model_.tables, data.train, BatchLoader::Options{true, drop_last, true, 3, 1, p, 3}));
      ASSERT_EQ(shares.back()->batches_per_epoch(), whole.batches_per_epoch());
      shares.back()->start(0, 0);
    }
    std::vector<std::vector<int64_t>> own;
    int64_t valid = 0;
    for (int64_t b = 0; b < whole.batches_per_epoch(); ++b) {
      own.emplace_back();
      for (auto& share : shares) {
        const Batch& batch = share->next();
        own.back().insert(own.back().end(), batch.samples.begin(), batch.samples.end());
        valid += batch.valid;
      }
    }
    EXPECT_EQ(valid, drop_last ? 96 : 100);
    shares.clear();
    model_.tables.settings.batch = 12;
    whole.start(0, 0);
    for (const std::vector<int64_t>& samples : own) EXPECT_EQ(samples, whole.next().samples);
  }
}

// Sums are those of ((a + b) + c), whatever the length.
TEST(Average, AddsInTheOrderOfProcesses) {
  for (const int64_t count : {1, 7, 511, 512, 513, 1500}) {
    std::vector<std::vector<float>> values(3);
    std::vector<const char*> parts;
    for (size_t p = 0; p < values.size(); ++p) {
      for (int64_t k = 0; k < count; ++k)
        values[p].push_back(static_cast<float>(random_bits(5, Stream::order, static_cast<int64_t>(p), k) >> 40) *
                            (p == 1 ? -1e3f : 1e-3f));
      parts.push_back(reinterpret_cast<const char*>(values[p].data()));
    }
    std::vector<float> mean(values[0]), sum(static_cast<size_t>(count));
    for (size_t k = 0; k < mean.size(); ++k) mean[k] = ((values[0][k] + values[1][k]) + values[2][k]) * (1.0f / 3);
    add_in_order(ScalarType::f32, parts, count * 4, true, reinterpret_cast<char*>(sum.data()));
    for (size_t k = 0; k < sum.size(); ++k) ASSERT_EQ(sum[k], (values[0][k] + values[1][k]) + values[2][k]);
    add_in_order(ScalarType::f32, parts, count * 4, false, reinterpret_cast<char*>(values[2].data()));  // into a part
    EXPECT_EQ(values[2], mean);
  }
}

TEST_F(Data, SplitSetsASharedPartAside) {
  model_.tables.data.validation = nullptr;
  model_.tables.data.validation_split = 0.2;
  const OpenedData data = open_data(model_.tables, model_.folder, 3);
  EXPECT_EQ(data.train.samples.size(), 80u);
  EXPECT_EQ(data.validation.samples.size(), 20u);
  std::vector<int64_t> all = data.train.samples;
  all.insert(all.end(), data.validation.samples.begin(), data.validation.samples.end());
  std::sort(all.begin(), all.end());
  for (int64_t k = 0; k < 100; ++k) EXPECT_EQ(all[static_cast<size_t>(k)], k);
  EXPECT_EQ(open_data(model_.tables, model_.folder, 3).train.samples, data.train.samples);
  EXPECT_NE(open_data(model_.tables, model_.folder, 4).train.samples, data.train.samples);
}

TEST_F(Data, ClassesThatDifferAreNamed) {
  const auto classes = [](const char* origin, std::vector<std::string> names) {
    auto data = std::make_shared<Dataset>();
    data->columns.emplace_back().origin = origin;
    data->classes = std::move(names);
    return data;
  };
  const auto said = [&](std::vector<std::string> training, std::vector<std::string> validation) {
    return fault_of(
        [&] { parts_of(model_.tables, classes("train", std::move(training)), classes("val", std::move(validation)), 3); });
  };
  EXPECT_EQ(said({"cat", "dog"}, {"Dog", "cat"}),
            "training and validation have different classes; only in train: \"dog\"; only in val: \"Dog\"");
  EXPECT_EQ(said({"a", "b", "c", "d", "e", "f", "g"}, {}),
            "training and validation have different classes; only in train: \"a\", \"b\", \"c\", \"d\", \"e\" and 2 more");
}

TEST(ReadSample, ScalesNormalisesAndMoves) {
  const Field field{"image", ScalarType::f32, 3, {2, 2, 3}};
  const double mean[] = {0, 1}, deviation[] = {1, 2};
  const Column column = owned_column(ScalarType::u8, {2, 3, 2}, 1, {0, 100, 1, 101, 2, 102, 3, 103, 4, 104, 5, 105}, "test");
  FieldSource source{"image", 0.5, mean, deviation, 2, true, false, 0};
  float got[12];
  SampleReader reader;
  reader.read(column, source, field, 0, {}, reinterpret_cast<char*>(got));
  EXPECT_THAT(got, ElementsAre(0, .5, 1, 1.5, 2, 2.5, 24.5, 24.75, 25, 25.25, 25.5, 25.75));
  // Every flip and shift occurs, and each is the plain image moved.
  source.flip = true, source.crop_padding = 1, source.channels = 0, source.scale = 1;
  std::set<std::vector<float>> seen, expected;
  for (int64_t position = 0; position < 2000; ++position) {
    reader.read(column, source, field, 0, {true, 1, 0, position}, reinterpret_cast<char*>(got));
    seen.insert({got, got + 12});
  }
  for (const bool mirror : {false, true}) {
    for (int down = -1; down <= 1; ++down) {
      for (int across = -1; across <= 1; ++across) {
        std::vector<float> image;
        for (int c = 0; c < 2; ++c)
          for (int y = 0; y < 2; ++y)
            for (int x = 0; x < 3; ++x) {
              const int from_y = y + down, from_x = (mirror ? 2 - x : x) + across;
              image.push_back(from_y < 0 || from_y > 1 || from_x < 0 || from_x > 2
                                  ? 0
                                  : static_cast<float>(100 * c + 3 * from_y + from_x));
            }
        expected.insert(image);
      }
    }
  }
  EXPECT_EQ(seen, expected);
}

TEST(ElementTypes, HalvesThereAndBack) {
  using namespace METAC_RUNTIME_NAMESPACE;
  auto half = [](double x) { return to_element<Half>(x).bits; };
  auto bfloat = [](double x) { return to_element<Bfloat>(x).bits; };
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t word = static_cast<uint16_t>(bits);
    if (const double value = static_cast<double>(value_of(Half{word})); !std::isnan(value)) {
      ASSERT_EQ(half(value), bits);
    }
    if (const double value = static_cast<double>(value_of(Bfloat{word})); !std::isnan(value)) {
      ASSERT_EQ(bfloat(value), bits);
    }
  }
  EXPECT_EQ(half(1 + 0x1p-11), half(1));  // ties to even
  EXPECT_EQ(half(1 + 3 * 0x1p-11), half(1 + 0x1p-9));
  EXPECT_EQ(half(1 + 0x1p-11 + 0x1p-40), half(1 + 0x1p-10));  // rounded once: float32 in between would make it a tie
  EXPECT_EQ(half(65519), 0x7bff);
  EXPECT_EQ(half(65519.9999999), 0x7bff);
  EXPECT_EQ(half(65520), 0x7c00);
  EXPECT_EQ(bfloat(1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(bfloat(1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(bfloat(1 + 3 * 0x1p-8), 0x3f82);
  const double wrong[] = {256, -1, 0.5, NAN};
  uint8_t byte = 0;
  for (const double& value : wrong) EXPECT_EQ(write_elements(ScalarType::u8, &value, 1, &byte), 0) << value;
  const float data[] = {1, 2, INFINITY, NAN};
  EXPECT_EQ(first_non_finite(ScalarType::f32, data, 4), 2);
  EXPECT_EQ(first_non_finite(ScalarType::f32, data, 2), -1);
}

#ifdef METAC_STB_IMAGE
// A BMP file of 24 bits a pixel, all three colours alike.
std::string bmp(int width, int height, const std::vector<int>& greys) {
  auto number = [](int value, int bytes) {
    return std::string(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
  };
  std::string pixels;
  for (int y = height - 1; y >= 0; --y) {
    for (int x = 0; x < width; ++x) pixels += std::string(3, static_cast<char>(greys[static_cast<size_t>(y * width + x)]));
    pixels += std::string(static_cast<size_t>((4 - 3 * width % 4) % 4), '\0');
  }
  return "BM" + number(54 + static_cast<int>(pixels.size()), 4) + number(0, 4) + number(54, 4) + number(40, 4) +
         number(width, 4) + number(height, 4) + number(1, 2) + number(24, 2) + std::string(24, '\0') + pixels;
}

TEST_F(Data, PicturesAreDecodedAndResized) {
  std::filesystem::create_directories(path("pictures/b"));
  std::filesystem::create_directories(path("pictures/a/deep"));
  model_.write("pictures/b/x.bmp", bmp(4, 2, std::vector<int>(8, 100)));
  model_.write("pictures/a/deep/y.bmp", bmp(2, 1, {0, 200}));
  model_.write("pictures/a/note.txt", "not one of them");
  const auto folder = std::make_shared<PictureFolder>(list_pictures(path("pictures"), "training"));
  EXPECT_THAT(folder->classes, ElementsAre("a", "b"));
  EXPECT_THAT(folder->labels, ElementsAre(0, 1));
  const Field field{"image", ScalarType::f32, 3, {1, 1, 4}};
  const Column column = read_pictures(folder, field, "pictures");
  double grey[4];
  column.decode(1, grey);
  EXPECT_THAT(grey, testing::Each(100));
  column.decode(0, grey);  // twice as wide: half a pixel of the edge stays
  EXPECT_THAT(grey, ElementsAre(0, 50, 150, 200));
  const Picture ramp{4, 1, 1, {0, 40, 80, 120}};
  double half[2];
  resize_picture(ramp, 1, 2, half);  // triangles of width 2: weights 3 3 1 / 1 3 3 of 7
  EXPECT_NEAR(half[0], (3 * 0 + 3 * 40 + 1 * 80) / 7.0, 1e-12);
  model_.write("pictures/b/x.bmp", "no picture");
  EXPECT_THAT(fault_of([&] { column.decode(1, grey); }), HasSubstr("not a picture that can be read"));
  // A JPEG file whose Huffman table claims 16 * 255 codes.
  model_.write("pictures/b/x.bmp",
               std::string("\xff\xd8\xff\xc4\x10\x03\x00", 7) + std::string(16, '\xff') + std::string(5000, 'x'));
  EXPECT_THAT(fault_of([&] { column.decode(1, grey); }), HasSubstr("a Huffman table of 4080 codes"));
}
#endif

}  // namespace
